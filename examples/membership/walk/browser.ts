/** What a page looks like to a visitor. */
export interface Page {
  readonly status: number;
  readonly url: string;
  readonly text: string;
  /** From the request to the last byte of the response, redirects included. */
  readonly ms: number;
}

const MAX_REDIRECTS = 5;

/** A visitor with cookies, who opens pages and sends forms as a browser does. */
export class Browser {
  readonly #site: string;
  readonly #cookies = new Map<string, string>();

  constructor(site: string) {
    this.#site = site;
  }

  /** The values of the cookies: secrets that must be stored nowhere. */
  get secrets(): string[] {
    return [...this.#cookies.values()];
  }

  open(address: string): Promise<Page> {
    return this.#follow(new URL(address, this.#site), { method: "GET" });
  }

  /** Sends a form. `origin`: the page that it is on, if it is not a page of the same site. */
  send(
    address: string,
    fields: Readonly<Record<string, string>> = {},
    { origin }: { origin?: string } = {},
  ): Promise<Page> {
    const url = new URL(address, this.#site);
    return this.#follow(url, {
      method: "POST",
      headers: { origin: origin ?? url.origin },
      body: new URLSearchParams(fields),
    });
  }

  async #follow(first: URL, init: RequestInit): Promise<Page> {
    const start = performance.now();
    let [url, request] = [first, init];
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await this.#fetch(url, request);
      const text = await response.text();
      const to = response.headers.get("location");
      if (to === null) return { status: response.status, url: url.href, text, ms: performance.now() - start };
      [url, request] = [new URL(to, url), { method: "GET" }];
    }
    throw new Error(`${first.href} redirects too often`);
  }

  /** Cookies are those of the site. Other servers get none. */
  async #fetch(url: URL, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("accept", "text/html");
    const isSite = url.origin === this.#site;
    if (isSite && this.#cookies.size > 0) {
      headers.set("cookie", [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; "));
    }
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    for (const cookie of isSite ? response.headers.getSetCookie() : []) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === "") this.#cookies.delete(name);
      else this.#cookies.set(name, value);
    }
    return response;
  }
}
