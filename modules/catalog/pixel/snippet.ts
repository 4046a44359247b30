// What a client puts into the head of every page.

/**
 * `{pixel_url}` stands for the host of pixels, which is not configured: it is put in by the person
 * who installs the snippet.
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
