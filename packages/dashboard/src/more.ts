// What the page loads when one of these is first shown.
export { default as Account } from "./overlays/account.js";
export { default as LoginAgain } from "./overlays/login-again.js";
export { default as Palette } from "./overlays/palette.js";
export { default as Shortcuts } from "./overlays/shortcuts.js";
export { default as Audit } from "./views/audit.js";
export { default as Failures } from "./views/failures.js";
export { default as Login } from "./views/login.js";
export { default as Queues } from "./views/queues.js";
export { default as Schedule } from "./views/schedule.js";
export { default as Schedules } from "./views/schedules.js";
export { default as Tokens } from "./views/tokens.js";
export { default as Workers } from "./views/workers.js";
