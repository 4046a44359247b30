// An installation as Prometheus sees it, for tests of alert rules: real registries of metrics,
// scraped every ten seconds of a made-up time, and judged by promtool.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parse, stringify } from "yaml";
import { type Metrics, openMetrics } from "../../infra/runtime/metrics.ts";
import { promtool } from "./promtool.ts";

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly effect: string; readonly runbook_url: string };
  readonly labels: { readonly severity: string };
}
export const RULES = "ops/prometheus/alerts.yml";
export const rules: readonly Rule[] = parse(readFileSync(RULES, "utf8")).groups.flatMap(
  (group: { rules: Rule[] }) => group.rules,
);
export const DOCS = "https://docs.example";
const SCRAPE_SECONDS = 10;
/** Only what a rule reads is handed over. */
const isRead = (name: string): boolean => rules.some(({ expr }) => expr.includes(name));

/** The alert as Alertmanager gets it. */
export interface Alarm {
  readonly alert: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly summary: string;
}

interface Series {
  readonly runs: string[];
  isThere: boolean;
  length: number;
}

export class AlertWorld {
  readonly #processes = new Map<string, { readonly text: () => Promise<string>; readonly labels: string }>();
  readonly #series = new Map<string, Series>();
  /** Samples of series that no process of ours has, by name. */
  readonly #foreign = new Map<string, number>();
  readonly #firing: { readonly at: number; readonly alerts: readonly string[] }[] = [];
  readonly #alarms: { readonly at: number; readonly alarm: Alarm }[] = [];
  #scrapes = 0;

  process(app: string, name: string = app): Metrics {
    const metrics = openMetrics({ app, version: "0", commit: "0" });
    this.scraped(name, metrics.text);
    return metrics;
  }

  /** A process whose metrics are read in this way. */
  scraped(name: string, text: () => Promise<string>): void {
    const labels = `instance="${name}:9080",job="tributary",process="${name}"`;
    this.#processes.set(name, { text, labels });
    this.foreign(`up{${labels}}`, 1);
  }

  /** Sets a series of another exporter, or `up`. */
  foreign(series: string, value: number): void {
    this.#foreign.set(series, value);
  }

  /** The process ends: its series are stale from here on. */
  end(name: string): void {
    this.foreign(`up{${this.#processes.get(name)!.labels}}`, 0);
    this.#processes.delete(name);
  }

  /** Lets the time of `seconds` pass; everything stays as it is now. */
  async pass(seconds: number): Promise<void> {
    const count = Math.round(seconds / SCRAPE_SECONDS);
    const now = new Map<string, string>([...this.#foreign].map(([series, value]) => [series, String(value)]));
    for (const { text, labels } of this.#processes.values())
      for (const line of (await text()).split("\n")) {
        const [, name, own, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
        if (name !== undefined && isRead(name)) now.set(`${name}{${own ? `${own},` : ""}${labels}}`, value!);
      }
    for (const series of now.keys())
      if (!this.#series.has(series)) this.#series.set(series, { runs: [], isThere: false, length: 0 });
    for (const [name, series] of this.#series) this.#add(series, now.get(name) ?? "_", count);
    this.#scrapes += count;
  }

  #add(series: Series, value: string, count: number): void {
    if (series.length < this.#scrapes) series.runs.push(`_x${this.#scrapes - series.length}`);
    // A scrape without a series that was there marks it as stale: it is gone at once.
    if (value !== "_") series.runs.push(`${value}x${count - 1}`);
    else if (series.isThere) series.runs.push("stale", ...(count > 1 ? [`_x${count - 1}`] : []));
    else series.runs.push(`_x${count}`);
    series.isThere = value !== "_";
    series.length = this.#scrapes + count;
  }

  /** From now on counts as: exactly these alerts fire at this moment. */
  firing(...alerts: readonly string[]): void {
    this.#firing.push({ at: this.#now(), alerts });
  }

  /** The alert fires now, with these labels and this text. */
  alarm(alarm: Alarm): void {
    this.#alarms.push({ at: this.#now(), alarm });
  }

  #now(): number {
    return Math.max(0, this.#scrapes - 1) * SCRAPE_SECONDS;
  }

  /** Asks promtool. Returns what it objects to; empty: all is as expected. */
  judge(): string {
    const folder = mkdtempSync(join(tmpdir(), "tributary-alerts-"));
    const file = join(folder, "test.yml");
    writeFileSync(file, stringify(this.#asTest(), { lineWidth: 0 }));
    try {
      const { isGood, text } = promtool("test", "rules", file);
      return isGood ? "" : text;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #asTest() {
    return {
      rule_files: [resolve(RULES)],
      evaluation_interval: `${SCRAPE_SECONDS}s`,
      tests: [
        {
          interval: `${SCRAPE_SECONDS}s`,
          external_labels: { docs: DOCS },
          input_series: [...this.#series].map(([series, { runs }]) => ({ series, values: runs.join(" ") })),
          promql_expr_test: this.#firing.map(({ at, alerts }) => ({
            expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
            eval_time: `${at}s`,
            exp_samples: alerts.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 })),
          })),
          alert_rule_test: this.#alarms.map(({ at, alarm }) => ({
            eval_time: `${at}s`,
            alertname: alarm.alert,
            exp_alerts: [expectedAlert(alarm)],
          })),
        },
      ],
    };
  }
}

const expectedAlert = ({ alert, labels, summary }: Alarm) => {
  const rule = rules.find((one) => one.alert === alert)!;
  const { effect, runbook_url } = rule.annotations;
  return {
    exp_labels: { ...labels, severity: rule.labels.severity },
    exp_annotations: { summary, effect, runbook_url: runbook_url.replace("{{ $externalLabels.docs }}", DOCS) },
  };
};
