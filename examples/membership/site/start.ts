import { listen } from "../listen.js";
import { openApp } from "./app.js";
import type { SiteConfig } from "./config.js";
import { openSite, type Site } from "./site.js";

/** The site, its dashboard and its worker, in this process. */
export interface StartedSite {
  readonly site: Site;
  readonly close: () => Promise<void>;
}

export async function startSite(config: SiteConfig): Promise<StartedSite> {
  const server = await listen(config.port);
  const site = await openSite(config, server.url);
  const app = openApp(site);
  server.handle(app.fetch);
  return {
    site,
    /** First the requests, then the jobs: both may use what is closed after them. */
    async close() {
      await app.close();
      await server.close();
      await site.close();
    },
  };
}
