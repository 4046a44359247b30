// The samples of a page in several languages, run unchanged if the language is installed.
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** The program for each language, and whether it is installed. */
const runtimes = {
  sh: { command: "sh", file: "sample.sh", version: "-c true" },
  js: { command: process.execPath, file: "sample.mjs", version: "--version" },
  python: { command: "python3", file: "sample.py", version: "--version" },
  php: { command: "php", file: "sample.php", version: "--version" },
} as const;
type Language = keyof typeof runtimes;
export const languages = Object.keys(runtimes) as readonly Language[];

export interface Sample {
  readonly language: Language;
  readonly text: string;
}

const isHere = (language: Language): boolean => {
  const { command, version } = runtimes[language];
  try {
    execFileSync(command, version.split(" "), { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

/** All samples of a page in their order. `runnable` are those whose language is installed. */
export const samplesOf = (page: string): { readonly all: readonly Sample[]; readonly runnable: readonly Sample[] } => {
  const text = readFileSync(page, "utf8");
  const all = [...text.matchAll(/^```(sh|js|python|php)\n([\s\S]*?)^```$/gm)].map(([, language, sample]) => ({
    language: language as Language,
    text: sample!,
  }));
  const runnable = all.filter(({ language }) => isHere(language));
  const absent = all.filter((sample) => !runnable.includes(sample)).map(({ language }) => language);
  if (absent.length > 0) console.info(`${page}: not run, for it is not installed: ${absent.join(", ")}`);
  return { all, runnable };
};

/** Runs a sample in a new folder; returns its output and its exit code. */
export const runSample = async (
  { language, text }: Sample,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly stdout: string; readonly stderr: string; readonly code: number }> => {
  const folder = mkdtempSync(join(tmpdir(), "sample-"));
  const { command, file } = runtimes[language];
  try {
    writeFileSync(join(folder, file), text);
    const options = { cwd: folder, env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", ...env } };
    const ran = await promisify(execFile)(command, [file], options);
    return { ...ran, code: 0 };
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
    return { stdout, stderr, code };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};
