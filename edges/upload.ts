// The edge of uploads, apart from the others so that apps/upload starts without their code.
import { acceptsUpload, admitUpload } from "../processors/admit/upload/upload.ts";
import { edge } from "../stream/flow.ts";
import { topology } from "../stream/topology.ts";
import { topics } from "../topics.ts";
import { deadLetters } from "./dead-letters.ts";

export const uploadEdges = topology(
  "tributary",
  deadLetters,
  edge({
    name: "upload",
    on: "PUT /upload/:client/:partner/:filename",
    accepts: acceptsUpload,
    admit: admitUpload,
    to: topics.eventsRaw,
  }),
);
