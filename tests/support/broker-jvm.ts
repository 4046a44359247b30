// How the brokers of tests run. Each lives for a minute or two, so what counts is the CPU of their
// start: without the optimising compiler and with classes read from an archive a broker takes 2.0 s
// of CPU to its first answer, 5.4 s as the product starts it.
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { StackConfig } from "../../infra/embedded/config.ts";
import { repositoryRoot } from "../../infra/embedded/home.ts";

/** Beside the jars whose classes it holds: another set of jars comes without it. */
const archive = join(repositoryRoot(), ".tributary", "jars", "kafka.jsa");
const QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

/** For JDK_JAVA_OPTIONS. A JVM ignores an archive that is missing or not its own. */
export const quickStart = `${QUICK} -XX:SharedArchiveFile=${archive}`;

/** Unless there is an archive, the broker of this configuration writes it when it ends. */
export const archivingClasses = async (config: StackConfig, work: (config: StackConfig) => Promise<void>) => {
  if (existsSync(archive)) return work(config);
  const draft = `${archive}.${process.pid}.new`;
  try {
    const options = `${QUICK} -XX:ArchiveClassesAtExit=${draft}`;
    await work({ ...config, inherited: { ...config.inherited, JDK_JAVA_OPTIONS: options } });
    if (existsSync(draft)) renameSync(draft, archive);
  } finally {
    rmSync(draft, { force: true });
  }
};
