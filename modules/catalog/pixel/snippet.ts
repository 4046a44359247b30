// The snippet that a client puts into the head of every page.

/**
 * `{pixel_url}` stands for the pixel host, which is not configured; the person who installs the
 * snippet fills it in.
 */
export const snippetOf = (clientId: number): string =>
  [
    "<script>",
    "window.svc = window.svc || function () { (svc.q = svc.q || []).push(arguments); };",
    "(function (d) {",
    '  var s = d.createElement("script");',
    "  s.async = true;",
    '  s.src = "{pixel_url}/r.js";',
    '  s.nonce = (d.currentScript || {}).nonce || "";',
    "  d.head.appendChild(s);",
    "})(document);",
    `svc("init", {client_id: ${clientId}});`,
    'svc("page");',
    "</script>",
  ].join("\n");
