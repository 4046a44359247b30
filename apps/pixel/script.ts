// GET /r.js and /vitals.js: the built script of the pixel, with headers for caches.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type DirectRoute, send } from "../../infra/http/direct/direct-host.ts";
import { unavailable } from "../../infra/http/problem.ts";
import { installedFile } from "../../infra/runtime/version.ts";

export interface Script {
  readonly plain: Buffer;
  readonly gzipped: Buffer;
  /** Of the bytes, in quotes. */
  readonly tag: string;
}

/** Undefined if the script was not built; `npm run build` writes dist/pixel/. */
export const readScript = (name: "r.js" | "vitals.js" | "replay.js"): Script | undefined => {
  const file = installedFile(join("dist/pixel", name));
  let plain: Buffer;
  try {
    plain = readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  const tag = `"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`;
  return { plain, gzipped: gzipSync(plain, { level: 9 }), tag };
};

/** Sets no cookie: a cache would give the id of one visitor to all. */
export const scriptRoute = (path: DirectRoute["path"], script: Script | undefined): DirectRoute => ({
  path,
  methods: {
    GET: (visit) => {
      if (script === undefined) throw unavailable("the script of the pixel was not built", 5);
      const { headers } = visit.request;
      const isGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(String(headers["accept-encoding"] ?? ""));
      const always = {
        "Access-Control-Allow-Origin": "*",
        "Cache-Control": "public, max-age=300",
        "Cross-Origin-Resource-Policy": "cross-origin",
        ETag: `W/${script.tag}`,
        Vary: "Accept-Encoding",
      };
      if (tagsIn(headers["if-none-match"]).includes(script.tag)) return send(visit, 304, always);
      const type = { "Content-Type": "text/javascript; charset=utf-8" };
      if (!isGzip) return send(visit, 200, { ...always, ...type }, script.plain);
      return send(visit, 200, { ...always, ...type, "Content-Encoding": "gzip" }, script.gzipped);
    },
  },
});

const tagsIn = (header: string | undefined): readonly string[] =>
  (header ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
