// What the tutorials build: express.json, one await of the registry client's encode an event,
// kafkajs with its defaults. The line that ours is held against.
import { SchemaRegistry } from "@kafkajs/confluent-schema-registry";
import express from "express";
import { Kafka } from "kafkajs";

const { brokers, registryUrl, schemaId, topic, port } = JSON.parse(process.argv[2]!) as {
  brokers: string;
  registryUrl: string;
  schemaId: number;
  topic: string;
  port: number;
};
const registry = new SchemaRegistry({ host: registryUrl });
const producer = new Kafka({ clientId: "twin", brokers: brokers.split(","), logLevel: 1 }).producer();
await producer.connect();
const app = express();
app.use(express.json({ limit: "25mb" }));
app.post("/ingest/batch", async (request, response) => {
  const events = (request.body as { events: Record<string, any>[] }).events;
  const messages = await Promise.all(
    events.map(async (event) => {
      const { props, ...rest } = event;
      return {
        key: `${event.cid}:${event.did}`,
        value: await registry.encode(schemaId, { ...rest, props: JSON.stringify(props) }),
      };
    }),
  );
  await producer.send({ topic, messages, acks: -1 });
  response.json({ accepted: events.length, rejected: 0, errors: [] });
});
app.listen(port, "127.0.0.1", () => process.stdout.write("ready\n"));
process.on("SIGTERM", () => void producer.disconnect().then(() => process.exit(0)));
