import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { csrf } from "hono/csrf";
import { HTTPException } from "hono/http-exception";
import { secureHeaders } from "hono/secure-headers";
import { openAdmin } from "./admin.js";
import { noticePage } from "./pages/notice.js";
import { STYLE } from "./pages/style.js";
import { accountRoutes } from "./routes/account.js";
import { apiRoutes } from "./routes/api.js";
import { homeRoutes } from "./routes/home.js";
import { membershipRoutes } from "./routes/membership.js";
import { newsletterRoutes } from "./routes/newsletters.js";
import { passwordRoutes } from "./routes/password.js";
import { signInRoutes } from "./routes/sign-in.js";
import { unsubscribeRoutes } from "./routes/unsubscribe.js";
import { readMember, type PageEnv } from "./routes/visitor.js";
import type { Site } from "./site.js";

/** More than the longest newsletter. */
const MAX_FORM_BYTES = 1_048_576;

/** The application: a function from `Request` to `Response`. */
export interface App {
  readonly fetch: (request: Request, env: object) => Response | Promise<Response>;
  /** Ends the streams of the dashboard. */
  close(): Promise<void>;
}

export function openApp(site: Site): App {
  const admin = openAdmin(site);
  const app = new Hono();
  app.onError((error, c) => {
    if (error instanceof HTTPException && error.status < 500) {
      return c.html(noticePage("Not allowed", "The form was not sent from a page of this site."), error.status);
    }
    console.error(error);
    return c.html(noticePage("Something went wrong", "Please try again in a moment."), 500);
  });
  app.notFound((c) => c.html(noticePage("Not found", "There is no such page."), 404));
  app.get("/style.css", (c) => c.body(STYLE, 200, { "content-type": "text/css", "cache-control": "max-age=300" }));

  // These have headers and a protection against other sites of their own.
  app.route("/", admin.routes);
  // Called by programs, without cookies.
  app.route("/", apiRoutes(site));

  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: ["'none'"],
        styleSrc: ["'self'"],
        frameSrc: ["'self'"],
        // The form that starts a payment redirects to Stripe.
        formAction: ["'self'", site.config.stripe.checkout],
        frameAncestors: ["'self'"],
        baseUri: ["'none'"],
      },
      // Without any referrer, browsers do not say which site a form is from.
      referrerPolicy: "same-origin",
    }),
  );
  app.route("/", unsubscribeRoutes(site));

  const pages = new Hono<PageEnv>();
  pages.use(
    bodyLimit({ maxSize: MAX_FORM_BYTES }),
    // Rejects forms that another site sends with the cookie of a member.
    csrf({ origin: site.url }),
    readMember(site),
  );
  for (const routes of [homeRoutes, signInRoutes, passwordRoutes, accountRoutes, membershipRoutes, newsletterRoutes]) {
    pages.route("/", routes(site));
  }
  app.route("/", pages);
  return { fetch: app.fetch, close: () => admin.close() };
}
