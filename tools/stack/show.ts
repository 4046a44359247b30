// The output of `npm start`: start-up lines, then the live screen with demo traffic, or the story
// once.

import type { Stack, StackEvent } from "../../infra/embedded/supervisor.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { startDemo, type Demo as Traffic } from "./demo.ts";
import type { Flags, Show } from "./npm-start.ts";
import { head, showScreen } from "./screen.ts";
import { type DemoShop, openShop } from "./shop/shop.ts";
import { tellStory } from "./tell-story.ts";

/** About 35 events a second: enough to see something, and little enough to leave running. */
const VISITS_PER_SECOND = 9;
const NOTES_SHOWN = 4;
const YOURS = "aurora-music";
/** The client whose links lead to the demo shop. */
const SHOP = "casa-verde";

const trafficOf = (stack: Stack, demo: Demo): Traffic =>
  startDemo({
    url: stack.run.apps.ingest!.url,
    secret: keyringOf(stack.env.TRIBUTARY_SECRET!).newest,
    shops: demo.clients.map(({ id, slug, ingest_token }) => ({
      client_id: id,
      currency: slug === YOURS ? "USD" : "MXN",
      link_ids: demo.links.filter(({ client_id }) => client_id === id).map(({ link_id }) => link_id),
      // The shop whose rule credits real purchases (README) only gets visitors who look, so that
      // its report shows nothing but the reader's own events.
      isSelling: slug !== YOURS,
      token: ingest_token,
    })),
    visitsPerSecond: VISITS_PER_SECOND,
    seed: Math.floor(Date.now() / 1_000) >>> 0,
  });

const shopOf = ({ run, env }: Stack, demo: Demo): Promise<DemoShop> =>
  openShop({
    clientId: demo.clients.find(({ slug }) => slug === SHOP)!.id,
    pixelUrl: run.apps.pixel!.url,
    clickhouseUrl: env.CLICKHOUSE_URL!,
    postgresUrl: env.POSTGRES_URL!,
  });

const once = async (stack: Stack, demo: Demo): Promise<void> => {
  const { CLICKHOUSE_URL, POSTGRES_URL, TRIBUTARY_SECRET } = stack.env;
  const stage = {
    ingestUrl: stack.run.apps.ingest!.url,
    clickhouseUrl: CLICKHOUSE_URL!,
    postgresUrl: POSTGRES_URL!,
    secret: keyringOf(TRIBUTARY_SECRET!).newest,
    demo,
  };
  const problems = await tellStory(stage, (text) => process.stdout.write(`${text}\n`));
  if (problems.length > 0)
    throw new Error(`not as it must be:\n${problems.map((problem) => `- ${problem}`).join("\n")}`);
  process.stdout.write("everything came out as the story says\n");
};

export const openShow = (): Show => {
  const notes: string[] = [];
  let isOnScreen = false;
  return {
    onEvent: (event: StackEvent) => {
      notes.push(event.text);
      if (notes.length > NOTES_SHOWN) notes.shift();
      if (!isOnScreen || event.kind === "stack.stopping") {
        isOnScreen = false;
        process.stdout.write(`${event.text}\n`);
      }
    },
    whenReady: async (stack: Stack, { isOnce, hasDemo }: Flags, leaving: AbortSignal) => {
      const demo = stack.run.demo as unknown as Demo;
      if (isOnce) return once(stack, demo);
      const shop = await shopOf(stack, demo);
      const traffic = hasDemo ? trafficOf(stack, demo) : undefined;
      isOnScreen = process.stdout.isTTY === true;
      if (!isOnScreen) process.stdout.write(`${head({ run: () => stack.run, demo, shopUrl: shop.url })}\n`);
      try {
        const sent = () => traffic && { accepted: traffic.accepted(), problem: traffic.lastProblem() };
        const { env, home } = stack;
        const options = { run: () => stack.run, env, home, demo, shopUrl: shop.url, sent, notes: () => notes };
        await showScreen(options, leaving);
      } finally {
        isOnScreen = false;
        await Promise.all([traffic?.stop(), shop.close()]);
      }
    },
  };
};
