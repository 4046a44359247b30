// The parts of kafkajs that this package uses, under names of their own.
export type {
  Admin as ClientAdmin,
  Consumer as ClientConsumer,
  EachBatchPayload as ClientBatch,
  Message as ClientMessage,
  Producer as ClientProducer,
} from "kafkajs";
