import { NewsletterSentError, SendRunNotScheduledError } from "@holdfast/mail";
import { Hono, type Context } from "hono";
import { z } from "zod";
import { newsletterMail, unsubscribeUrl } from "../mails.js";
import { editorPage, listPage } from "../pages/newsletters.js";
import { previewPage } from "../pages/preview.js";
import type { Site } from "../site.js";
import { readForm } from "./form.js";
import { staffOnly, type MemberEnv, type PageEnv } from "./visitor.js";

const CONTENT = z.object({
  subject: z.string().trim().min(1, "Enter a subject.").max(200),
  textBody: z
    .string()
    .trim()
    .min(1, "Write something.")
    .max(100_000)
    .transform((text) => text.replaceAll("\r\n", "\n")),
});
/** What a browser sends for a date and a time; here it is UTC. Empty: now. */
const TIME = z.object({
  at: z
    .string()
    .transform((at) => (at === "" ? new Date() : new Date(`${at}Z`)))
    .refine((at) => !Number.isNaN(at.getTime()), "Enter a date and a time."),
});

/** The editor page of the newsletter. */
export function newsletterRoutes(site: Site): Hono<PageEnv> {
  const { hf, news, members } = site;
  const routes = new Hono<MemberEnv>();
  routes.use("/staff/newsletters/*", staffOnly());
  routes.use("/staff/runs/*", staffOnly());

  async function editor(c: Context<MemberEnv>, id: string, problem: string | null = null): Promise<Response> {
    const letter = await news.get(id);
    if (letter === null) return c.notFound();
    const runs = await news.runs(id);
    const page = editorPage(c.get("member"), { letter, runs, subscribers: members.countSubscribers(), problem });
    return c.html(page, problem === null ? 200 : 400);
  }

  /** Changes a newsletter or a run, and shows the newsletter. It may have been sent since the page was loaded. */
  async function change(c: Context<MemberEnv>, id: string, action: () => Promise<unknown>): Promise<Response> {
    try {
      await action();
      return c.redirect(`/staff/newsletters/${id}`, 303);
    } catch (error) {
      const isLate = error instanceof SendRunNotScheduledError || error instanceof NewsletterSentError;
      if (!isLate) throw error;
      return editor(c, id, "It was sent or cancelled in the meantime.");
    }
  }

  routes.get("/staff/newsletters", async (c) => {
    const dispatched = c.req.query("dispatched");
    return c.html(listPage(c.get("member"), { letters: await news.list(), dispatched }));
  });
  routes.post("/staff/newsletters", async (c) => {
    const { fields, problem } = readForm(CONTENT, await c.req.parseBody());
    if (fields === null) return c.html(listPage(c.get("member"), { letters: await news.list(), problem }), 400);
    const { id } = await news.create(fields);
    return c.redirect(`/staff/newsletters/${id}`, 303);
  });
  routes.post("/staff/newsletters/dispatch-due", async (c) => {
    const dispatched = await news.dispatchDue(hf);
    return c.redirect(`/staff/newsletters?dispatched=${dispatched.length}`, 303);
  });

  routes.get("/staff/newsletters/:id", (c) => editor(c, c.req.param("id")));
  routes.post("/staff/newsletters/:id", async (c) => {
    const id = c.req.param("id");
    const { fields, problem } = readForm(CONTENT, await c.req.parseBody());
    if (fields === null) return editor(c, id, problem);
    return change(c, id, () => news.update(id, fields));
  });
  routes.get("/staff/newsletters/:id/preview", async (c) => {
    const letter = await news.get(c.req.param("id"));
    if (letter === null) return c.notFound();
    const { id, email, unsubscribeKey } = c.get("member");
    const url = unsubscribeUrl(site.url, { unsubscribeKey });
    return c.html(previewPage(newsletterMail(letter, { id, email, unsubscribeUrl: url })));
  });
  routes.post("/staff/newsletters/:id/runs", async (c) => {
    const id = c.req.param("id");
    const { fields, problem } = readForm(TIME, await c.req.parseBody());
    if (fields === null) return editor(c, id, problem);
    return change(c, id, () => news.schedule(hf, id, fields));
  });

  routes.post("/staff/runs/:run/move", async (c) => {
    const run = await news.run(c.req.param("run"));
    if (run === null) return c.notFound();
    const { fields, problem } = readForm(TIME, await c.req.parseBody());
    if (fields === null) return editor(c, run.newsletterId, problem);
    return change(c, run.newsletterId, () => news.move(hf, run.id, fields));
  });
  routes.post("/staff/runs/:run/cancel", async (c) => {
    const run = await news.run(c.req.param("run"));
    if (run === null) return c.notFound();
    return change(c, run.newsletterId, () => news.cancel(hf, run.id));
  });
  return routes as unknown as Hono<PageEnv>;
}
