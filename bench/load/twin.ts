// The pipeline of tutorials, which ours is compared with: express.json, one await of the registry
// client's encode for each event, and kafkajs with its defaults. Its schema holds the same fields,
// with props as one text.
import { SchemaRegistry } from "@kafkajs/confluent-schema-registry";
import express from "express";
import { Kafka } from "kafkajs";

const [brokers, registryUrl, topic, port] = process.argv.slice(2) as [string, string, string, string];

const fields = ["t", "ts", "cid", "did", "event_id", "url", "ref", "ip", "ua", "consent", "props"];
const schema = {
  type: "record",
  name: "TwinEvent",
  fields: fields.map((name) => ({
    name,
    type: name === "ts" ? "long" : name === "cid" || name === "consent" ? "int" : "string",
  })),
};
const registered = await fetch(`${registryUrl}/subjects/${topic}-value/versions`, {
  method: "POST",
  headers: { "content-type": "application/vnd.schemaregistry.v1+json" },
  body: JSON.stringify({ schema: JSON.stringify(schema) }),
});
const { id: schemaId } = (await registered.json()) as { id: number };
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
app.listen(Number(port), "127.0.0.1");
process.on("SIGTERM", () => void producer.disconnect().then(() => process.exit(0)));
