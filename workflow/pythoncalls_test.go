package workflow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

const callFlows = `
import asyncio
from trinity.common.workflows import Workflow

try:
    import httpx2 as httpx
except ImportError:
    import httpx

def fails(task, model, auxiliary_models, how, who, text="hello"):
    of = auxiliary_models[0] if who == "judge" else model
    body = {"model": who, "messages": [{"role": "user", "content": text}]}
    client = of.get_openai_client()
    match how:
        case "sync":
            client.chat.completions.create(**body)
        case "raw":
            client.chat.completions.with_raw_response.create(**body)
        case "stream":
            list(client.chat.completions.create(**body, stream=True))
        case "options":
            client.with_options(max_retries=0, timeout=30).chat.completions.create(**body)
        case "impatient":
            client.with_options(max_retries=0, timeout=0.3).chat.completions.create(**body)
        case "nobody":
            client.with_options(max_retries=0, base_url="http://127.0.0.1:9/v1").chat.completions.create(**body)
        case "httpx":
            url = f"{client.base_url}chat/completions"
            httpx.post(url, json=body, headers={"Authorization": "Bearer " + client.api_key}).raise_for_status()
        case "wrapper":
            type(of).__mro__[-2].chat(of, body["messages"])
        case "caused":
            try:
                client.chat.completions.create(**body)
            except Exception as error:
                raise ValueError("no reply") from error
        case "hidden":
            try:
                client.chat.completions.create(**body)
            except Exception:
                pass
            raise ValueError("no reply")
        case "excused":
            try:
                client.chat.completions.create(**body)
            except Exception:
                pass
            model.chat("'short'")
            raise ValueError("no good reply")
        case "later":
            return _later(of, body)

async def _later(of, body):
    await of.get_openai_async_client().chat.completions.create(**body)

async def streams_later(task, model, auxiliary_models, how, who, text="hello"):
    of = auxiliary_models[0] if who == "judge" else model
    body = {"model": who, "messages": [{"role": "user", "content": text}]}
    async for _ in await of.get_openai_async_client().chat.completions.create(**body, stream=True):
        pass

class Counted(Workflow):
    """Returns what its model remembers."""

    how = ""

    def run(self):
        client, body = self.model.get_openai_client(), {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        how = self.task.workflow_args["how"]
        if how == "stream":
            list(client.chat.completions.create(**body, stream=True))
        elif how == "streams":
            for n, part in enumerate(client.chat.completions.create(**body, stream=True, n=2)):
                pass
        elif how == "options":
            client.with_options(timeout=30).with_options(max_retries=1).chat.completions.create(**body)
        elif how == "copy":
            client.copy().chat.completions.create(**body)
        elif how == "raw":
            client.chat.completions.with_raw_response.create(**body)
        elif how == "own":
            import openai
            openai.OpenAI(base_url=client.base_url, api_key=client.api_key).chat.completions.create(**body)
        elif how == "async":
            async def ask():
                asynchronous = self.model.get_openai_async_client().with_options(timeout=30)
                async for _ in await asynchronous.chat.completions.create(**body, stream=True):
                    pass
                await asynchronous.chat.completions.create(**body)
            asyncio.run(ask())
        out = self.model.extract_experience_from_history()
        for e in out:
            e.reward = 1.0
        return out
`

// flaky is a policy that answers nothing, or a host of a judge that fails.
type flaky struct {
	judging
	err error
}

func (f flaky) Asker(string) (trinity.Asker, error) { return f, nil }

func (f flaky) Ask(context.Context, []trinity.Message, trinity.AskOptions) (trinity.Answer, error) {
	return trinity.Answer{}, f.err
}

type stalled struct{}

func (stalled) Sample(ctx context.Context, _ trinity.Prompt, _ trinity.SamplingParams) ([]trinity.Completion, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// callsOf returns a section python that finds callFlows.
func callsOf(t *testing.T) map[string]any {
	t.Helper()
	python, dir := trinitytest.CompatPython(t, "openai"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "call_flows.py"), []byte(callFlows), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"path": []any{dir}, "interpreter": python}
}

// A rollout that ends because of a failed call has failed by what that call has failed by, whichever client made it.
func TestCompatFailuresOfCalls(t *testing.T) {
	section, s := callsOf(t), newGated(t)
	refused := trinity.NoAnswer("judge", trinity.AskRefused, errors.New("it declined"))
	busy := trinity.NoAnswer("judge", trinity.AskUnreachable, errors.New("nobody is there"))
	long := strings.Repeat("long ", 100)
	for _, c := range []struct {
		how, who, text string
		err            error // of the judge
		policy         trinity.Sampler
		want           trinity.FailureKind
		says           string
	}{
		{how: "sync", who: "judge", err: refused, want: trinity.FailedModel, says: "it declined"},
		{how: "raw", who: "judge", err: refused, want: trinity.FailedModel, says: "it declined"},
		{how: "stream", who: "judge", err: refused, want: trinity.FailedModel, says: "it declined"},
		{how: "later", who: "judge", err: refused, want: trinity.FailedModel, says: "it declined"},
		{how: "httpx", who: "judge", err: refused, want: trinity.FailedModel, says: "400 Bad Request"},
		{how: "wrapper", who: "judge", err: refused, want: trinity.FailedModel, says: "it declined"},
		{how: "caused", who: "judge", err: refused, want: trinity.FailedModel, says: "ValueError: no reply"},
		{how: "hidden", who: "judge", err: refused, want: trinity.FailedModel, says: "its last call of a model failed: model judge: refused"},
		{how: "excused", who: "judge", err: refused, want: trinity.FailedAgent, says: "no good reply"},
		{how: "options", who: "judge", err: busy, want: trinity.FailedModel, says: "nobody is there"},
		{how: "options", who: "judge", err: errors.New("it broke"), want: trinity.FailedModel, says: "it broke"}, // status 500
		{how: "nobody", who: "judge", want: trinity.FailedModel, says: "APIConnectionError"},
		{how: "nobody", who: "policy", want: trinity.FailedEnvironment, says: "APIConnectionError"},
		{how: "impatient", who: "policy", policy: stalled{}, want: trinity.FailedTimeout, says: "APITimeoutError"},
		{how: "sync", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "stream", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "later", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "streams_later", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "options", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "httpx", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "wrapper", who: "policy", text: long, want: trinity.FailedWorkflow, says: "model.max_prompt_tokens is 100"},
		{how: "excused", who: "policy", text: long, want: trinity.FailedAgent, says: "no good reply"},
	} {
		args := map[string]any{"how": c.how, "who": c.who}
		if c.text != "" {
			args["text"] = c.text
		}
		name := "fails"
		if c.how == "streams_later" {
			name = c.how
		}
		own := map[string]any{"class": "call_flows." + name, "args": args, "python": section, "auxiliary_models": []any{"judge"}}
		policy := c.policy
		if policy == nil {
			policy = teller{"four"}
		}
		r := onGated(s, policy, 0, nil)
		r.Model.MaxPromptLen, r.Host = 100, flaky{judging{s}, c.err}
		_, err := build(t, "python", own).Run(t.Context(), r)
		if kindOf(err) != c.want || err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s of the %s: %v, want %s: %s; got %v", c.how, c.who, kindOf(err), c.want, c.says, err)
		}
	}
}

// However a class asks its model's clients, the replies are in its history. One that others have asked says so.
func TestCompatRepliesOfClientsAreCounted(t *testing.T) {
	section, s := callsOf(t), newGated(t)
	for how, want := range map[string]int{"stream": 1, "streams": 2, "options": 1, "copy": 1, "raw": 1, "async": 2, "own": 0} {
		own := map[string]any{"class": "call_flows.Counted", "args": map[string]any{"how": how}, "python": section}
		exps, err := build(t, "python", own).Run(t.Context(), onGated(s, teller{"four"}, 0, nil))
		if want == 0 {
			const says = "its model knows nothing of 1 of the policy's 1 replies: ask by model.chat, or by a client of the model"
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %s", how, err, says)
			}
		} else if err != nil || len(exps) != want || exps[0].Response != "four" || exps[0].TrainedTokens() != 5 {
			t.Errorf("%s: %d experiences, %v", how, len(exps), err)
		}
	}
}
