// THE PIPELINE: every edge, stage and sink, in the order of the data flow. The edges are declared
// in edges.ts. `npm run describe` draws the pipeline into the README.
import { edges } from "./edges.ts";
import { attribute } from "./processors/attribute/attribute.ts";
import { attributeFacts } from "./processors/attribute/facts.ts";
import { journey } from "./processors/attribute/journey.ts";
import { commission } from "./processors/commission/commission.ts";
import { contracts } from "./processors/commission/contracts.ts";
import { earned } from "./processors/commission/memory.ts";
import { enrich } from "./processors/enrich/enrich.ts";
import { enrichFacts } from "./processors/enrich/facts.ts";
import { person } from "./processors/enrich/identity.ts";
import { scoreFacts } from "./processors/score/facts.ts";
import { score } from "./processors/score/score.ts";
import { conflict, takenId } from "./processors/settle/conflict.ts";
import { order } from "./processors/settle/memory.ts";
import { settle } from "./processors/settle/settle.ts";
import { topics } from "./topics.ts";
import { appEventRows } from "./sinks/app-events/rows.ts";
import { appEvents } from "./sinks/app-events/table.ts";
import { archive } from "./sinks/archive/archive.ts";
import { eventRows } from "./sinks/analytics/rows.ts";
import { events } from "./sinks/analytics/table.ts";
import { claimPositionRows } from "./sinks/claim-positions/rows.ts";
import { claimPositions } from "./sinks/claim-positions/table.ts";
import { consentRows } from "./sinks/consent/rows.ts";
import { consentChanges } from "./sinks/consent/table.ts";
import { conversionRows } from "./sinks/conversions/rows.ts";
import { conversions } from "./sinks/conversions/table.ts";
import { identityLinkRows } from "./sinks/identity/rows.ts";
import { identityEdges } from "./sinks/identity/table.ts";
import { ledgerRows } from "./sinks/ledger/rows.ts";
import { ledger } from "./sinks/ledger/table.ts";
import { saleRows } from "./sinks/product-sales/rows.ts";
import { productSales } from "./sinks/product-sales/table.ts";
import { velocityRows } from "./sinks/velocity/rows.ts";
import { velocity } from "./sinks/velocity/table.ts";
import { sink, stage } from "./stream/flow.ts";
import { topology } from "./stream/topology.ts";

export const pipeline = topology("tributary", edges.deadLetters,
  ...edges.declared,

  stage({ name: "enrich", revision: 3, from: topics.eventsRaw, run: enrich, facts: enrichFacts, memory: person,
    to: { enriched: topics.eventsEnriched } }),
  stage({ name: "score", revision: 2, from: topics.eventsEnriched, run: score, facts: scoreFacts,
    to: { scored: topics.eventsScored } }),
  stage({ name: "attribute", revision: 3, from: topics.eventsScored, run: attribute, facts: attributeFacts,
    memory: journey, to: { attributed: topics.eventsAttributed, claims: topics.claims } }),
  stage({ name: "settle", revision: 3, from: topics.claims, run: settle, memory: order, conflict,
    taken: { to: topics.claimsTaken, ...takenId },
    to: { conversions: topics.conversions, attributed: topics.eventsAttributed } }),
  stage({ name: "commission", revision: 3, from: topics.conversions, run: commission, facts: contracts, memory: earned,
    to: { entries: topics.ledgerEntries } }),

  sink({ name: "archive", from: topics.eventsRaw, into: archive }),
  sink({ name: "analytics", from: topics.eventsAttributed, rows: eventRows, into: events }),
  sink({ name: "product-sales", from: topics.eventsAttributed, rows: saleRows, into: productSales }),
  sink({ name: "app-events", from: topics.eventsAttributed, rows: appEventRows, into: appEvents }),
  sink({ name: "identity", from: topics.eventsAttributed, rows: identityLinkRows, into: identityEdges }),
  sink({ name: "velocity", from: topics.eventsAttributed, rows: velocityRows, into: velocity }),
  sink({ name: "consent", from: topics.eventsAttributed, rows: consentRows, into: consentChanges }),
  sink({ name: "claim-positions", from: topics.claims, rows: claimPositionRows, into: claimPositions }),
  sink({ name: "conversions", from: topics.conversions, rows: conversionRows, into: conversions }),
  sink({ name: "ledger", from: topics.ledgerEntries, rows: ledgerRows, into: ledger }),
);
