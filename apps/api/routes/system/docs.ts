// The routes of the documentation, which is made from the served routes.
import { readDocs, readOpenApi } from "../../contract/system/system.ts";
import { docsPage } from "../../docs-page.ts";
import { openApiOf } from "../../openapi.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** The page has its style in itself, and nothing else. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const KEPT = { "Cache-Control": "public, max-age=300" };

export const routes = ({ served, version }: Pick<ApiPorts, "served" | "version">): readonly Route[] => {
  // The served routes do not change while the process runs.
  let texts: { readonly json: string; readonly page: string } | undefined;
  const made = () => {
    if (texts !== undefined) return texts;
    const described = openApiOf(served(), version);
    texts = { json: JSON.stringify(described), page: docsPage(described) };
    return texts;
  };
  return [
    route(readOpenApi, async () => ({
      status: 200,
      text: made().json,
      headers: { ...KEPT, "Content-Type": "application/json; charset=utf-8" },
    })),
    route(readDocs, async () => ({
      status: 200,
      text: made().page,
      headers: { ...KEPT, "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY },
    })),
  ];
};
