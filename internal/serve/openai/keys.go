package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// unsupported are the keys of OpenAI, vLLM, SGLang and llama.cpp that the server refuses, with the
// values that ask for nothing. For every key these are also null, "" and []. An empty object is not
// among them: an empty JSON schema asks for JSON, and empty options of a search ask for a search.
// The server also refuses all keys that begin with guided and that it does not know.
var unsupported = map[string][]any{
	"add_special_tokens":         nil,
	"allowed_token_ids":          nil,
	"audio":                      nil,
	"bad_words":                  nil,
	"chat_template":              nil,
	"chat_template_kwargs":       {map[string]any{}},
	"documents":                  nil,
	"ebnf":                       nil,
	"function_call":              {"auto", "none"},
	"functions":                  nil,
	"grammar":                    nil,
	"include_stop_str_in_output": {false},
	"length_penalty":             {1.0},
	"logits_processors":          nil,
	"lora_path":                  nil,
	"modalities":                 {[]any{"text"}},
	"moderation":                 nil,
	"reasoning_effort":           {"none"},
	"return_prompt_token_ids":    {false},
	"skip_special_tokens":        {true},
	"stop_regex":                 nil,
	"structural_tag":             nil,
	"suffix":                     nil,
	"thinking_token_budget":      nil,
	"truncate_prompt_tokens":     nil,
	"use_beam_search":            {false},
	"verbosity":                  {"low", "medium"}, // what clients send by default
	"web_search_options":         nil,
}

// because says why a key is refused, if that is not plain.
var because = map[string]string{
	"suffix": "a reply continues the prompt, and the model does not see what follows it; ",
}

// guided begins the keys of vLLM that constrain a reply.
const guided = "guided_"

// harmless are the keys that say nothing about a reply's text.
var harmless = []string{
	"cache_salt", "guided_decoding_backend", "metadata", "prediction", "priority", "prompt_cache_key", "prompt_cache_options",
	"prompt_cache_retention", "request_id", "safety_identifier", "service_tier", "spaces_between_special_tokens", "store", "user",
}

// supported are the keys of wire.Request.
var supported = func() (keys []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[wire.Request]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}()

// checkKeys refuses keys that ask for something that the server cannot do, and reports keys that it
// does not know.
func (s *Server) checkKeys(data []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(data, &given); err != nil {
		return NotJSON(err)
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		nothing, known := unsupported[key]
		switch taken := slices.Contains(supported, key) || slices.Contains(harmless, key); {
		case known || !taken && strings.HasPrefix(key, guided):
			var value any
			if err := json.Unmarshal(given[key], &value); err != nil || !asksNothing(value, nothing) { // an error is a number out of range
				return Bad(key, "%s is not supported: %sleave it out", quoted(key, given[key]), because[key])
			}
		case !taken:
			s.Ignore(key)
		}
	}
	return nil
}

// quoted returns a field with its value as far as one line shows it: a short text, a number, true or
// false, or the type of an object.
func quoted(field string, value json.RawMessage) string {
	var typed struct{ Type string }
	switch text := strings.TrimSpace(string(value)); {
	case text[0] == '{' && json.Unmarshal(value, &typed) == nil && typed.Type != "":
		return quoted(field+".type", json.RawMessage(strconv.Quote(typed.Type)))
	case text[0] == '{' || text[0] == '[' || len(text) > maxShown:
		return field
	default:
		return field + ": " + text
	}
}

// inner removes the names of Go's types from the path of a field, which clients do not know.
var inner = strings.NewReplacer("Extensions.", "", "Constraints.", "", "plain.", "")

// NotJSON returns the problem of a request that cannot be read.
func NotJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return Bad("", "the request is not the JSON that is wanted: %v", err)
	case wrong.Field == "":
		return Bad("", "the request is a JSON %s: want a JSON object", wrong.Value)
	}
	field := inner.Replace(wrong.Field)
	return Bad(field, "%s has a value of another type or out of range: %s", field, wrong.Value)
}

// asksNothing reports whether a value is empty or one of those that ask for nothing.
func asksNothing(value any, nothing []any) bool {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.String, reflect.Slice:
		if v.Len() == 0 {
			return true
		}
	}
	return slices.ContainsFunc(nothing, func(n any) bool { return reflect.DeepEqual(n, value) })
}

// notices remembers what the server has said about requests.
type notices struct {
	mu    sync.Mutex
	lines map[string]bool
}

// Limits of what a request can write to the log and to its reply.
const (
	maxSaid       = 100 // lines
	maxIgnoredKey = 64  // bytes of a key
	maxShown      = 80  // bytes of a value
)

// Ignore says, once for each key of requests, that it has no effect.
func (s *Server) Ignore(key string) {
	s.said.once(fmt.Sprintf("requests have a key %q, which has no effect", key[:min(len(key), maxIgnoredKey)]), s.Say)
}

// once says a line that it has not said before.
func (i *notices) once(line string, say func(string)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if say == nil || i.lines[line] || len(i.lines) == maxSaid {
		return
	}
	if i.lines == nil {
		i.lines = map[string]bool{}
	}
	i.lines[line] = true
	say(line)
}
