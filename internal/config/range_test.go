package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/tags"
)

// Load reports a value outside the range of its key once, whatever other rules it breaks.
func TestOutOfRangeIsReportedOnce(t *testing.T) {
	whole, err := Parse("whole.yaml", []byte(base), Options{})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	eachField(reflect.TypeOf(*whole), "", func(f reflect.StructField, key string) {
		text := f.Tag.Get("range")
		if text == "" {
			return
		}
		r := tags.ParseInterval(text)
		value := fmt.Sprint(r.Low - 1)
		if f.Type.Kind() == reflect.Slice {
			value = "[" + value + "]"
		}
		_, err := Parse("base.yaml", []byte(base), Options{Overrides: []string{key + "=" + value}})
		var all Errors
		if !errors.As(err, &all) {
			t.Errorf("%s=%s: %v", key, value, err)
			return
		}
		n := 0
		for _, e := range all {
			if e.Key == key && !e.Unsupported {
				n++
			}
		}
		if tried++; n != 1 {
			t.Errorf("%s=%s: %d errors of the key, want 1:\n%v", key, value, n, all)
		}
	})
	if tried < 50 {
		t.Errorf("%d keys were tried", tried)
	}
}

// A number that would overflow, alone or in a product, is an error of its key, never a negative
// number of the plan.
func TestLargeNumbersAreRefused(t *testing.T) {
	whole, err := Parse("whole.yaml", []byte(base), Options{})
	if err != nil {
		t.Fatal(err)
	}
	together := []string{
		"buffer.batch_size=2147483647 algorithm.repeat_times=2147483647",
		"buffer.batch_size=2147483647 algorithm.repeat_times=2147483647 model.max_model_len=2147483647",
		"model.max_prompt_tokens=2147483647 model.max_response_tokens=2147483647 model.max_model_len=null",
		"explorer.runner_per_model=2147483647 explorer.rollout_model.engine_num=2147483647 algorithm.repeat_times=2147483647",
		"buffer.total_epochs=2147483647 buffer.batch_size=1 algorithm.repeat_times=65536",
		"buffer.train_batch_size=2147483647 model.max_model_len=2147483647",
		"trainer.trainer_config.actor_rollout_ref.actor.ppo_epochs=9223372036854775807 buffer.train_batch_size=1000",
	}
	eachField(reflect.TypeOf(*whole), "", func(f reflect.StructField, key string) {
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Int || f.Tag.Get("auto") != "" || f.Tag.Get("yaml") == "seed" {
			return
		}
		together = append(together, key+"=2147483647")
		for _, n := range []string{"2147483648", "9223372036854775807"} {
			if _, err := Parse("base.yaml", []byte(base), Options{Overrides: []string{key + "=" + n}}); err == nil ||
				!strings.Contains(err.Error(), key+": is "+n+", must be at most 2147483647") {
				t.Errorf("%s=%s: %v", key, n, err)
			}
		}
	})
	for _, settings := range together {
		c, err := Parse("base.yaml", []byte(base), Options{Overrides: strings.Fields(settings)})
		if err != nil {
			if key, _, _ := strings.Cut(settings, "="); strings.Contains(settings, " ") && !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", settings, err)
			}
			continue
		}
		p, err := c.Plan(Facts{Model: tiny, Rows: map[string]int{"buffer.explorer_input.taskset": 100_000}})
		if err != nil {
			t.Errorf("%s: %v", settings, err)
			continue
		}
		for _, s := range p.Stages {
			for name, n := range map[string]int64{"explore steps": s.ExploreSteps, "train steps": s.TrainSteps,
				"disk": planned[int64](s, "disk"), "tokens": planned[int64](s, "tokens_per_step"),
				"experiences": int64(planned[int](s, "experiences_per_step")), "last": int64(planned[int](s, "experiences_last_step")),
				"micro": int64(planned[int](s, "micro_batch_tokens")), "optimizer steps": int64(planned[int](s, "optimizer_steps"))} {
				if n < 0 {
					t.Errorf("%s: %d %s", settings, n, name)
				}
			}
		}
	}
}

// eachField visits the fields of sections, except those in lists.
func eachField(typ reflect.Type, key string, visit func(f reflect.StructField, key string)) {
	switch typ.Kind() {
	case reflect.Pointer:
		eachField(typ.Elem(), key, visit)
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" || name == "stages" {
				continue
			}
			visit(f, tags.Join(key, name))
			eachField(f.Type, tags.Join(key, name), visit)
		}
	}
}

// An error quotes an unknown key. Control characters in the key must not reach the terminal.
func TestErrorsHaveNoControlCharacters(t *testing.T) {
	_, err := Parse("base.yaml", []byte(base+"\"\\e[2J\\n\": 1\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), `\x1b[2J\n: unknown key`) {
		t.Errorf("%q", err)
	}
}
