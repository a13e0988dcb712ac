import { Hono } from "hono";
import { homePage } from "../pages/home.js";
import type { PageEnv } from "./visitor.js";

export function homeRoutes(): Hono<PageEnv> {
  const routes = new Hono<PageEnv>();
  routes.get("/", (c) => c.html(homePage(c.get("member"))));
  return routes;
}
