// What the page loads for one job, or to make one.
export { default as Enqueue } from "./overlays/enqueue.js";
export { default as Job } from "./views/job.js";
