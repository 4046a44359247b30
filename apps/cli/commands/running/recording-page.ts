// Serves one recorded visit to a browser of this machine: a page, its player and the recording,
// under a secret path. The page loads nothing from elsewhere, and no script of the recording runs.
import { readFileSync } from "node:fs";
import { type DirectRoute, directHost, send, type Visit } from "../../../../infra/http/direct/direct-host.ts";
import { type ListeningServer, listen } from "../../../../infra/http/listen.ts";
import { Problem } from "../../../../infra/http/problem.ts";
import type { Log } from "../../../../infra/runtime/log.ts";
import { refusalOf } from "../../../../infra/runtime/same-machine.ts";
import { installedFile } from "../../../../infra/runtime/version.ts";
import type { OpenedRecording } from "../../../../modules/intake/recordings/recording-reads.ts";

/**
 * A recorded page has its own styles, so styles are allowed; pictures and fonts only if the
 * recording holds them.
 */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data:; font-src data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HEADERS = { "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer" };

/** Reads the file that `npm run build` makes. Throws with the cure when it is missing. */
const readPlayer = (): Buffer => {
  const file = installedFile("dist/pixel/player.js");
  try {
    return readFileSync(file);
  } catch {
    throw new Error(`${file} was not built: npm run build`);
  }
};

/** `token` is a random part of the path. */
export const serveRecording = (recording: OpenedRecording, token: string, log: Log): Promise<ListeningServer> => {
  const player = readPlayer();
  const { pages } = recording;
  const route = (name: string, type: string, body: string | Buffer): DirectRoute => ({
    path: `/${token}${name}`,
    methods: {
      GET: (visit) => {
        refuseOthers(visit);
        send(visit, 200, { ...HEADERS, "Content-Type": type }, body);
      },
    },
  });
  const routes = [
    route("-view", "text/html; charset=utf-8", pageOf(recording, token)),
    route("-player.js", "text/javascript; charset=utf-8", player),
    route("-recording.json", "application/json", JSON.stringify({ pages })),
  ];
  return listen(directHost(routes, { trustedProxies: [], log }), { host: "127.0.0.1", port: 0 });
};

/** Answers 404 to another host name that points at this machine, and to pages of other sites. */
const refuseOthers = ({ request }: Visit): void => {
  if (refusalOf(request.headers, "of this machine") !== undefined)
    throw new Problem("not_found", "no such path on this host");
};

const STYLE = `
  * { box-sizing: border-box }
  body { margin: 0; height: 100vh; display: flex; flex-direction: column; font: 14px system-ui, sans-serif;
    background: #f4f5f7; color: #17212b }
  header, footer { display: flex; gap: 12px; align-items: center; padding: 10px 16px; background: #fff }
  header { border-bottom: 1px solid #d9dee3 }
  footer { border-top: 1px solid #d9dee3 }
  h1 { font-size: 14px; margin: 0 }
  #pages { display: flex; gap: 6px; flex-wrap: wrap }
  #pages [aria-current] { background: #17212b; color: #fff }
  #stage { flex: 1; min-height: 0; margin: 16px; overflow: hidden }
  #position { flex: 1 }
  .replayer-wrapper { position: relative; transform-origin: top left; width: max-content }
  .replayer-wrapper iframe { border: 1px solid #d9dee3; background: #fff }
  .replayer-mouse { position: absolute; z-index: 1; width: 14px; height: 14px; margin: -7px; border-radius: 50%;
    background: #2563eb; opacity: .6 }
  .replayer-mouse.active { box-shadow: 0 0 0 8px #2563eb44 }`;

/**
 * Every value was checked when it was stored: the session is letters and digits, the rest numbers.
 */
const pageOf = (recording: OpenedRecording, token: string): string => {
  const { session_id: session, started_at, seconds, events, missing } = recording;
  const gaps = missing === 0 ? "" : `, ${missing} chunks are missing`;
  const facts = `${new Date(started_at).toISOString()}, ${Math.round(seconds)} s, ${events} events${gaps}`;
  return `<!doctype html><html lang="en">
<head><meta charset="utf-8"><title>Recording ${session}</title><style>${STYLE}</style></head>
<body>
<header><h1>${session}</h1><span>${facts}</span><nav id="pages" aria-label="Pages of the visit"></nav></header>
<main id="stage"></main>
<footer>
  <button id="toggle">Play</button>
  <input id="position" type="range" min="0" value="0" aria-label="Position"><span id="time"></span>
  <label>Speed
    <select id="speed"><option>1</option><option>2</option><option>4</option><option>8</option></select></label>
</footer>
<script src="${token}-player.js" data-recording="${token}-recording.json"></script>
</body></html>`;
};
