import Anthropic from "@anthropic-ai/sdk";

const stream = process.argv[2] === "stream";
const client = new Anthropic();
const input_schema = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"] };
const tools = [{ name: "add", description: "adds", input_schema }];
const messages = [{ role: "user", content: "What is 20 + 22?" }];
let reply, results;
do {
  const request = { model: "claude", max_tokens: 100, system: "Add numbers with the tool.", messages, tools };
  reply = stream ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
  messages.push({ role: "assistant", content: reply.content });
  const calls = reply.content.filter((block) => block.type === "tool_use");
  results = calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: String(c.input.a + c.input.b) }));
  if (results.length) messages.push({ role: "user", content: results });
} while (results.length);
const body = JSON.stringify({ value: reply.content.at(-1).text.includes("42") ? 1 : 0 });
await fetch(process.env.OPENAI_BASE_URL + "/reward", { method: "POST", body });
