// Prints the progress of a fuzz run to stderr.
import { tell } from "../../../infra/runtime/output.ts";

export const progress = (text: string): void => tell(`${new Date().toISOString().slice(11, 19)} ${text}`);
