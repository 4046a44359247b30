// The folders of the servers after the first start of an installation, made once and then copied.
// With a copy a start takes only as long as a second start.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { canReach, serverUser } from "../../infra/embedded/services/server-user.ts";
import { startStack } from "../../infra/embedded/supervisor.ts";
import { lockFile } from "../../infra/runtime/lock.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { steps } from "../../modules/running/installation/steps.ts";
import { ownConfig } from "../stack/home-for-test.ts";
import { archivingClasses } from "./broker-jvm.ts";

const root = repositoryRoot();
const shelf = join(root, ".tributary", "golden");

/**
 * The files that a second start reads. Ports, processes and `run.json` belong to one start and are
 * not copied.
 */
const KEPT = ["kafka/data", "clickhouse", "postgres", "secrets.json", "demo-secrets.json"];
/** Sources that determine the content of the folders after a first start. */
const SOURCES = ["domain", "infra", "migrations", "modules", "schemas", "stream", "topics.ts", "topics.yaml"];
const DAY_MS = 86_400_000;
const BUILT_WITHIN_MS = 180_000;
/** After this time no process still copies an older one. */
const UNUSED_AFTER_MS = 3_600_000;

/** The key contains the day, because the records of the seed begin at the time of the seed. */
const keyOf = (): string => {
  const hash = createHash("sha256").update(`${process.version} ${Math.floor(Date.now() / DAY_MS)}`);
  for (const name of [...SOURCES, "package-lock.json"]) {
    const at = join(root, name);
    const isFolder = statSync(at).isDirectory();
    const files = isFolder
      ? readdirSync(at, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name))
          .sort()
      : [at];
    for (const file of files) hash.update(`\0${file.slice(root.length)}\0`).update(readFileSync(file));
  }
  return hash.digest("hex").slice(0, 16);
};

/** `cp -a` keeps owners, links and holes; the file system shares blocks where it can. */
const copy = (from: string, to: string) => promisify(execFile)("cp", ["-a", from, to]);

/** Opens the folder to Postgres' user, so that Postgres keeps its data in it. */
const opened = (folder: string): string => {
  chmodSync(folder, 0o711);
  return folder;
};

/** The draft is renamed when it is complete, so that a crash leaves no incomplete one. */
const build = async (golden: string): Promise<void> => {
  const home = opened(mkdtempSync(join(tmpdir(), "tributary-golden-")));
  const draft = `${golden}.new`;
  rmSync(draft, { recursive: true, force: true });
  try {
    await archivingClasses(ownConfig(), async (config) => {
      const services = ["kafka", "postgres", "clickhouse", "redis", "registry"] as const;
      const stack = await startStack({ home, config, services, steps });
      await stack.stop();
    });
    for (const name of KEPT) {
      mkdirSync(dirname(join(draft, name)), { recursive: true, mode: 0o700 });
      await copy(realpathSync(join(home, name)), join(draft, name));
    }
    renameSync(draft, golden);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
};

const removeUnused = (): void => {
  for (const name of readdirSync(shelf).filter((one) => /^[0-9a-f]{16}$/.test(one)))
    if (Date.now() - statSync(join(shelf, name)).mtimeMs > UNUSED_AFTER_MS)
      rmSync(join(shelf, name), { recursive: true, force: true });
};

/**
 * Fills the empty folder of a stack with a copy. The folder stays empty if Postgres' user cannot
 * reach it; then the first start fills it.
 */
export const fillHome = async (home: string): Promise<void> => {
  const user = serverUser();
  if (user !== undefined && !canReach(user, opened(home))) return;
  const golden = join(shelf, keyOf());
  if (!existsSync(golden)) {
    mkdirSync(shelf, { recursive: true });
    const unlock = await until("no other process makes a golden home", BUILT_WITHIN_MS, () =>
      lockFile(join(shelf, "lock.json")),
    );
    try {
      removeUnused();
      if (!existsSync(golden)) await build(golden);
    } finally {
      unlock();
    }
  }
  for (const name of KEPT) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    await copy(join(golden, name), join(home, name));
  }
};
