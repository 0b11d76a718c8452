//go:build unix

package run_test

import (
	"os"
	"testing"

	"github.com/trinity-go/trinity/trinitytest/server"
)

// A run whose experiences pass through a Redis server ends with the bytes of one in memory, also when it and the server are killed.
func TestRedis(t *testing.T) {
	t.Parallel()
	memory := newProject(t, tiny, rl)
	memory.start(t, nil).finish(t)
	redis, p := server.Redis(t), memory.copyOf(t)
	override := []string{"buffer.trainer_input.experience_buffer={storage_type: redis, path: '" + redis.URL + "', max_retry_times: 200}"}
	if !p.start(t, nil, override...).signalWhen(t, os.Kill, p.appears("global_step_2")) {
		t.Error("the run was not killed")
	}
	redis.Kill(t)
	redis.Start(t)
	run := p.start(t, nil, override...)
	run.await(t, p.appears("global_step_4"))
	redis.Kill(t)
	redis.Start(t)
	run.finish(t)
	results(t, p.dir).sameAs(t, results(t, memory.dir))
}
