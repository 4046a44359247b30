// A real browser for tests: Debian's Chromium, driven by playwright-core, and installed if it is
// missing.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { type Browser, chromium } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const find = (): string | undefined => PLACES.find((path) => existsSync(path));

/** Installs Chromium, which takes some minutes. Throws with the fix if that is impossible. */
const installed = (): string => {
  const found = find();
  if (found !== undefined) return found;
  const cure = "install Chromium (apt-get install chromium) and run the tests again";
  if (process.getuid?.() !== 0 || spawnSync("apt-get", ["--version"]).status !== 0)
    throw new Error(`No Chromium was found in ${PLACES.join(", ")}, and only root can install it here: ${cure}.`);
  const apt = (...args: readonly string[]) =>
    execFileSync("apt-get", ["-q", "-y", "-o", "DPkg::Lock::Timeout=300", ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
  try {
    apt("update");
    apt("install", "--no-install-recommends", "chromium");
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer };
    throw new Error(`Chromium could not be installed: ${cure}. apt-get said: ${stderr?.toString().trim() ?? error}`);
  }
  return installed();
};

/** The user agent of an ordinary visitor, because the headless browser reports itself as a bot. */
export const USER_AGENT =
  "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/** `args` are further switches. Each page runs in a context with an empty profile. */
export const launchChromium = (args: readonly string[] = []): Promise<Browser> =>
  chromium.launch({
    executablePath: installed(),
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", ...args],
    // Playwright disables this cache, but visitors have it.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
