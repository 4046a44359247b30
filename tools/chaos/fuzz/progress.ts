// Where a run of the fuzz is, on stderr.
import { tell } from "../../../infra/runtime/output.ts";

export const progress = (text: string): void => tell(`${new Date().toISOString().slice(11, 19)} ${text}`);
