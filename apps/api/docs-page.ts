// The page at /docs shows openapi.json as HTML without scripts, so that it needs neither the
// network nor an exception of the content security policy.
import type { OpenApi, Operation } from "./openapi.ts";

const escaped = (text: string): string => text.replace(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`);

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
summary { cursor: pointer; padding: .3rem 0; } summary code { font-weight: 600; }
details { border-bottom: 1px solid #d8dee4; } details > div { padding: 0 1rem 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
pre { background: #f6f8fa; padding: .8rem; overflow: auto; font-size: 13px; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } pre { background: #161b22; }
  details { border-color: #30363d; } a { color: #58a6ff; } }`;

const json = (value: unknown): string => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;

const parameters = ({ parameters: given }: Operation): string =>
  given.length === 0
    ? ""
    : `<table><tr><th>parameter</th><th>in</th><th></th></tr>${given
        .map(
          ({ name, in: place, required, description = "", schema }) =>
            `<tr><td><code>${escaped(name)}</code>${required ? " *" : ""}</td><td>${place}</td>` +
            `<td>${escaped(description)} <code>${escaped(JSON.stringify(schema))}</code></td></tr>`,
        )
        .join("")}</table>`;

const callers = (operation: Operation): string => {
  const roles = Object.entries(operation["x-roles"]);
  if (roles.length === 0) return operation.security.length === 0 ? "<p>Public.</p>" : "<p>With a service token.</p>";
  return `<table><tr><th>role</th><th>rows</th><th>fields</th></tr>${roles
    .map(
      ([role, { rows, fields = [] }]) =>
        `<tr><td>${role}</td><td>${rows}</td>` +
        `<td>${fields.map((field) => `<code>${escaped(field)}</code>`).join(" ")}</td></tr>`,
    )
    .join("")}</table>`;
};

const answers = ({ responses }: Operation): string =>
  Object.entries(responses)
    .map(([status, { description, content }]) => {
      const schema = content?.["application/json"]?.schema;
      return `<p><b>${status}</b> ${escaped(description)}</p>${schema === undefined ? "" : json(schema)}`;
    })
    .join("");

const body = ({ requestBody }: Operation): string =>
  requestBody === undefined ? "" : `<p><b>Body</b></p>${json(requestBody.content["application/json"].schema)}`;

const section = (method: string, path: string, operation: Operation): string =>
  `<details id="${escaped(operation.operationId)}"><summary><code>${method.toUpperCase()} ${escaped(path)}</code> ` +
  `${escaped(operation.summary)}</summary><div>${callers(operation)}${parameters(operation)}${body(operation)}` +
  `${answers(operation)}</div></details>`;

/** The whole page. */
export const docsPage = ({ info, paths }: OpenApi): string => {
  const areas = new Map<string, string>();
  for (const [path, operations] of Object.entries(paths))
    for (const [method, operation] of Object.entries(operations)) {
      const area = operation.tags[0]!;
      areas.set(area, (areas.get(area) ?? "") + section(method, path, operation));
    }
  const sections = [...areas]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([area, all]) => `<h2>${escaped(area)}</h2>${all}`);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escaped(info.title)}</title>
<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head><body>
<h1>${escaped(info.title)}</h1><p>Version ${escaped(info.version)}. The same for machines:
<a href="/openapi.json">openapi.json</a>. Send <code>Authorization: Bearer &lt;token&gt;</code>; every fault is
<code>application/problem+json</code> with a <code>code</code> and the place of each fault.</p>
${sections.join("\n")}</body></html>`;
};
