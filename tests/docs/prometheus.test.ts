// The lines of docs/operate.md that point a Prometheus of this machine at a running `npm start`.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";

test("Prometheus asks every app that run.json names, and has the rules and the times of compose", () => {
  const page = readFileSync("docs/operate.md", "utf8");
  const [, line, start] = /^(node -p .* > (?:\S+))\n(prometheus .*)$/m.exec(page)!;
  const folder = mkdtempSync(join(tmpdir(), "tributary-prometheus-"));
  try {
    mkdirSync(join(folder, ".tributary"));
    symlinkSync(resolve("ops"), join(folder, "ops"));
    const app = (port: number) => ({ url: `http://127.0.0.1:${port}`, ops_url: `http://127.0.0.1:${port + 1}` });
    writeFileSync(
      join(folder, ".tributary/run.json"),
      JSON.stringify({ apps: { ingest: app(30_001), api: app(30_003) } }),
    );
    const { status, stderr } = spawnSync("bash", ["-ec", line!], { cwd: folder, encoding: "utf8" });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    const file = /--config\.file=(\S+)/.exec(start!)![1]!;
    const { global, rule_files, scrape_configs } = JSON.parse(readFileSync(join(folder, file), "utf8"));
    expect(scrape_configs).toEqual([
      {
        job_name: "tributary",
        static_configs: [
          { labels: { process: "ingest" }, targets: ["127.0.0.1:30002"] },
          { labels: { process: "api" }, targets: ["127.0.0.1:30004"] },
        ],
      },
    ]);
    expect(rule_files.map(existsSync)).toEqual([true]);
    expect(global).toEqual({
      ...parse(readFileSync("ops/prometheus/prometheus.yml", "utf8")).global,
      external_labels: { docs: `file://${realpathSync(folder)}` },
    });
    expect(start).toContain("--web.listen-address=127.0.0.1:");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
