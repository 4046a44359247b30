// The page of `tributary replay-view`: plays one recorded visit, page by page, from the file beside
// it. No recorded script runs here, and nothing is loaded.
import { Replayer } from "@rrweb/replay";

interface RecordedEvent {
  readonly pages: readonly { readonly page: string; readonly events: readonly { readonly timestamp: number }[] }[];
}

const byId = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const clock = (ms: number): string => new Date(Math.max(0, ms)).toISOString().slice(11, 19);
const STEP_MS = 100;

const pages = byId("pages");
const stage = byId("stage");
const toggle = byId<HTMLButtonElement>("toggle");
const position = byId<HTMLInputElement>("position");
const speed = byId<HTMLSelectElement>("speed");
let player: Replayer | undefined;
let isPlaying = false;

const show = (playing: boolean): void => {
  isPlaying = playing;
  toggle.textContent = playing ? "Pause" : "Play";
};
const playFrom = (ms: number): void => {
  player?.play(ms);
  show(true);
};

const scaleStage = (): void => {
  const wrapper = stage.querySelector<HTMLElement>(".replayer-wrapper");
  const frame = wrapper?.querySelector("iframe");
  if (!wrapper || !frame) return;
  const scale = Math.min(1, stage.clientWidth / frame.clientWidth, stage.clientHeight / frame.clientHeight);
  wrapper.style.transform = `scale(${scale})`;
};

const open = ({ events }: RecordedEvent["pages"][number], button: HTMLElement): void => {
  player?.destroy();
  player = undefined;
  stage.textContent = "";
  for (const one of Array.from(pages.children)) one.toggleAttribute("aria-current", one === button);
  if (events.length < 2) {
    stage.textContent = "Of this page too little was stored to be played.";
    return;
  }
  const own = new Replayer(events as any, {
    root: stage,
    skipInactive: true,
    showWarning: false,
    mouseTail: false,
    triggerFocus: false,
    speed: Number(speed.value),
  });
  player = own;
  own.on("resize", scaleStage);
  own.on("finish", () => show(false));
  position.max = `${own.getMetaData().totalTime}`;
  playFrom(0);
  scaleStage();
};

toggle.onclick = () => {
  if (isPlaying) {
    player?.pause();
    show(false);
  } else playFrom(Number(position.value) >= Number(position.max) ? 0 : Number(position.value));
};
position.oninput = () => playFrom(Number(position.value));
speed.onchange = () => player?.setConfig({ speed: Number(speed.value) });
window.onresize = scaleStage;
setInterval(() => {
  if (!player) return;
  if (isPlaying) position.value = `${player.getCurrentTime()}`;
  byId("time").textContent = `${clock(Number(position.value))} of ${clock(Number(position.max))}`;
}, STEP_MS);

const start = async (): Promise<void> => {
  const recorded = (await (await fetch(document.currentScript!.dataset.recording!)).json()) as RecordedEvent;
  recorded.pages.forEach((page, n) => {
    const button = document.createElement("button");
    button.textContent = `Page ${n + 1}`;
    button.onclick = () => open(page, button);
    pages.append(button);
  });
  (pages.firstElementChild as HTMLElement | null)?.click();
};
start().catch((error: unknown) => {
  stage.textContent = `The recording cannot be played: ${error}`;
});
