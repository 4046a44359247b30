// The parts of kafkajs that this package uses, under our own names.
export type {
  Admin as ClientAdmin,
  Consumer as ClientConsumer,
  EachBatchPayload as ClientBatch,
  Message as ClientMessage,
  Producer as ClientProducer,
} from "kafkajs";
