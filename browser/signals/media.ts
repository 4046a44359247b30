// Videos of the page itself; videos in frames of other hosts cannot be seen.
import { doc, listen } from "../guard.ts";
import type { Tracker } from "../tracker.ts";

const QUARTERS = [25, 50, 75];

export const startMedia = ({ signal }: Tracker): void => {
  const seen = new WeakMap<HTMLMediaElement, number>();
  const propsOf = (video: HTMLMediaElement): Record<string, unknown> => ({
    source: video.currentSrc.replace(/^(data|blob):.*/, "$1:").split("?")[0],
    at_s: Math.round(video.currentTime),
    duration_s: Number.isFinite(video.duration) ? Math.round(video.duration) : null,
  });
  const on = (names: string, work: (video: HTMLMediaElement) => void): void =>
    listen(doc, names, ({ target }) => {
      if (target instanceof HTMLVideoElement) work(target);
    });
  on("play", (video) => signal("video_play", propsOf(video)));
  on("pause", (video) => {
    if (!video.ended) signal("video_pause", propsOf(video));
  });
  on("ended", (video) => {
    signal("video_complete", propsOf(video));
    seen.delete(video);
  });
  on("timeupdate", (video) => {
    const percent = (video.currentTime / video.duration) * 100;
    const before = seen.get(video) ?? 0;
    const reached = QUARTERS.filter((quarter) => percent >= quarter && before < quarter).pop();
    if (reached === undefined) return;
    seen.set(video, reached);
    signal("video_progress", { ...propsOf(video), percent: reached });
  });
};
