import OpenAI from "openai";

const stream = process.argv[2] === "stream";
const client = new OpenAI();
const parameters = { type: "object", properties: { a: { type: "integer" }, b: { type: "integer" } }, required: ["a", "b"] };
const tools = [{ type: "function", function: { name: "add", description: "adds", parameters } }];
const messages = [
  { role: "developer", content: "Add numbers with the tool." },
  { role: "user", content: "What is 20 + 22?" },
];
let message;
do {
  const request = { model: "gpt-5", messages, tools };
  const whole = stream ? await client.chat.completions.stream(request).finalChatCompletion() : await client.chat.completions.create(request);
  message = whole.choices[0].message;
  messages.push(message);
  for (const call of message.tool_calls ?? []) {
    const { a, b } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: String(a + b) });
  }
} while (message.tool_calls?.length);
const body = JSON.stringify({ value: message.content.includes("42") ? 1 : 0 });
await fetch(process.env.OPENAI_BASE_URL + "/reward", { method: "POST", body });
