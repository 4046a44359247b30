// The snippet that a client puts into the head of every page.
import { shownAddress } from "../../base/public-hosts.ts";

/**
 * Where the public address of the pixel host is not configured, `{pixel_url}` stands in its place;
 * the person who installs the snippet fills it in.
 */
export const snippetOf = (clientId: number, pixel: string | undefined): string =>
  [
    "<script>",
    "window.svc = window.svc || function () { (svc.q = svc.q || []).push(arguments); };",
    "(function (d) {",
    '  var s = d.createElement("script");',
    "  s.async = true;",
    `  s.src = "${shownAddress(pixel ?? "{pixel_url}", "/r.js")}";`,
    '  s.nonce = (d.currentScript || {}).nonce || "";',
    "  d.head.appendChild(s);",
    "})(document);",
    `svc("init", {client_id: ${clientId}});`,
    'svc("page");',
    "</script>",
  ].join("\n");
