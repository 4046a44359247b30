// The live screen of `npm start`: received and stored events, the lag of each stage, and the money.

import { writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Run } from "../../infra/embedded/supervisor.ts";
import { snippetOf } from "../../modules/catalog/pixel/snippet.ts";
import { examplesOf, printedExamples } from "../../modules/running/installation/examples.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { openReadings, type ScreenReading } from "./screen-reading.ts";

export interface ScreenOptions {
  readonly run: () => Run;
  readonly env: Readonly<Record<string, string>>;
  readonly demo: Demo;
  readonly shopUrl: string;
  /** Demo events that the edge has accepted so far; undefined without demo traffic. */
  readonly sent: () => { readonly accepted: number; readonly problem: string | undefined } | undefined;
  /** The folder of the stack; the file of the first event is written into it. */
  readonly home: string;
  /** The last lines of the supervisor. */
  readonly notes: () => readonly string[];
}
const REFRESH_MS = 1_000;
const LINE_EVERY_MS = 10_000;

/** Draws until `leaving` is aborted: over itself on a terminal, else one line every 10 s. */
export const showScreen = async (options: ScreenOptions, leaving: AbortSignal): Promise<void> => {
  const readings = await openReadings(options.env, options.demo);
  const isTerminal = process.stdout.isTTY === true;
  const [first] = examplesOf(options.run().apps, options.demo);
  if (first) writeFileSync(join(options.home, "first-event.sh"), `${first.command}\n`, { mode: 0o600 });

  let reading: ScreenReading | undefined;
  let lastLine = Number.NEGATIVE_INFINITY;
  try {
    while (!leaving.aborted) {
      const problem = await readings.read(reading, options.sent()?.problem).then(
        (next) => {
          reading = next;
          return undefined;
        },
        (error: Error) => error.message,
      );
      if (isTerminal) drawOver(options, reading, problem);
      else if (performance.now() - lastLine > LINE_EVERY_MS && reading !== undefined) {
        lastLine = performance.now();
        process.stdout.write(`${problem ?? reading.text.split("\n").slice(0, 3).join("; ")}\n`);
      }
      await pause(REFRESH_MS, undefined, { signal: leaving }).catch(() => undefined);
    }
  } finally {
    await readings.close();
  }
};

/** `problem`: why the stores could not be read this time. */
const drawOver = (options: ScreenOptions, reading: ScreenReading | undefined, problem: string | undefined): void => {
  const notes = [...(problem ? [`not readable just now: ${problem}`] : []), ...options.notes()].join("\n");
  const { columns = 80, rows = 24 } = process.stdout;
  const text = `${shortHead(options)}\n\n${reading?.text ?? ""}\n\n${notes}`;
  process.stdout.write(`\x1b[H\x1b[2J${fitted(text, { columns, rows })}\n`);
};

/** The first link of each partner, by shop, to open in a browser. */
const linksOf = ({ clients, links }: Demo): readonly string[] =>
  clients.map(({ id, slug }) => {
    const own = links.filter((link) => link.client_id === id);
    const firsts = own.filter((link, n) => n === own.findIndex(({ partner_id }) => partner_id === link.partner_id));
    return `links of ${slug}: ${firsts.map(({ url }) => url).join(" ")}`;
  });

const LAST_LINE = "Ctrl-C stops everything.";

/** Cuts the text to the width and height of the terminal. */
export const fitted = (
  text: string,
  { columns, rows }: { readonly columns: number; readonly rows: number },
): string => {
  const lines = text.split("\n").map((line) => (line.length > columns ? `${line.slice(0, columns - 1)}…` : line));
  // The cursor stays in a separate line.
  return [...lines.slice(0, Math.max(0, rows - 3)), "", LAST_LINE].slice(-(rows - 1)).join("\n");
};

/**
 * The lines above the figures, with each long address on its own line; the request is in the file.
 */
export const shortHead = ({
  run,
  home,
  demo,
  shopUrl,
}: Pick<ScreenOptions, "run" | "home" | "demo" | "shopUrl">): string =>
  [
    `Tributary   ingest ${run().apps.ingest?.url ?? "-"}   api ${run().apps.api?.url ?? "-"}`,
    `try it: sh ${join(relative(process.cwd(), home), "first-event.sh")}   more: npx tributary examples`,
    `demo shop ${shopUrl}   pixel ${run().apps.pixel?.url ?? "-"}`,
    `a link ${demo.links[0]?.url ?? "-"}`,
  ].join("\n");

/** Addresses, and requests that work when pasted into another terminal. */
export const head = (options: Pick<ScreenOptions, "run" | "demo" | "shopUrl">): string => {
  const { apps, services } = options.run();
  const shop = options.demo.clients[1] ?? options.demo.clients[0]!;
  const pixel = apps.pixel?.url ?? "-";
  return [
    `Tributary  ingest ${apps.ingest?.url ?? "-"}  pixel ${pixel}  kafka ` +
      `${"brokers" in services.kafka! ? services.kafka.brokers : "-"}  more: npx tributary status`,
    `demo shop, with what just happened beside it: ${options.shopUrl}  (its links lead there: those of casa-verde)`,
    ...linksOf(options.demo),
    `in the head of a page: ${snippetOf(shop.id, pixel).replaceAll(/\n\s*/g, " ")}`,
    "every way of sending, also by npx tributary examples:",
    "",
    printedExamples(examplesOf(options.run().apps, options.demo)),
  ].join("\n");
};
