package config

import (
	"strings"
	"testing"
)

// A reason that depends on the run changes, or goes, with the run.
func TestReasonsFollowTheRun(t *testing.T) {
	const (
		rollout = "explorer.rollout_model."
		started = " explorer.rollout_model.engine_type=served"
		named   = started + " explorer.rollout_model.base_urls=[http://a:8000]"
		serving = " mode=serve"
	)
	for _, c := range []struct{ set, more, want string }{
		{rollout + "seed=1", "", "the run's seed"},
		{rollout + "seed=1", started, ""},
		{rollout + "seed=1", named, "the server decides it"},
		{rollout + "seed=1", " mode=train buffer.train_batch_size=4", "mode train opens no sampler"},
		{rollout + "nnodes=2", "", "is part of this process"},
		{rollout + "nnodes=2", started + " explorer.rollout_model.engine_num=2", "each server that the run starts has one machine"},
		{rollout + "nnodes=2", named, "the servers that base_urls names run already"},
		{rollout + "nnodes=2", " mode=train buffer.train_batch_size=4", "mode train opens no sampler"},
		{rollout + "api_key=k", "", "only mode serve and servers"},
		{rollout + "api_key=k", started, "gives the servers that it starts a key"},
		{rollout + "api_key=k", named, ""},
		{rollout + "api_key=k", serving, ""},
		{rollout + "enable_history=true", "", "id by id"},
		{rollout + "enable_history=true", serving, "pending_expiry, which is 0"},
		{rollout + "enable_history=true", serving + " explorer.pending_expiry=5 synchronizer.sync_style=fully_async", "records real traffic"},
		{rollout + "enable_openai_api=true", "", "a workflow whose rollouts a program makes"},
		{rollout + "enable_openai_api=true", serving, "mode serve always opens the API"},
		{rollout + "tool_call_parser=hermes", "", ""},
		{rollout + "tool_call_parser=hermes", " " + rollout + "enable_auto_tool_choice=false", "replies are text"},
		{"explorer.service_status_check_interval=5", "", "Trinity-RFT reads it only in mode serve"},
		{"explorer.service_status_check_interval=5", serving, "the engine is part of this process"},
		{"explorer.min_running_model_num=2", serving + named, "a server that does not answer is left out"},
		{"explorer.dynamic_timeout.ratio=2", "", "enable is false"},
		{"explorer.dynamic_timeout.ratio=2", " explorer.dynamic_timeout.enable=true", ""},
		{"explorer.dynamic_timeout.ratio=2", " explorer.dynamic_timeout.enable=true mode=bench", "no rollouts for training"},
		{"explorer.over_rollout.wait_after_min=2", "", "ratio is 0"},
		{"explorer.over_rollout.wait_after_min=2", " explorer.over_rollout.ratio=0.2 synchronizer.sync_style=fully_async", ""},
		{"explorer.over_rollout.wait_after_min=2", " mode=bench", "no rollouts for training"},
		{"explorer.pending_expiry=5", "", "only mode serve reads it"},
		{"monitor.shared_run=true", "", "of mode both always share one run"},
		{"monitor.shared_run=true", " mode=explore", "are two runs"},
		{"log.group_by_node=true", "", "the run starts no programs"},
		{"log.group_by_node=true", started, "a file of its own"},
		{"log.group_by_node=true", named, "the run starts no programs"},
		{"cluster.gpu_per_node=2", started, ""},
		{"cluster.gpu_per_node=2", named, "the servers run already"},
		{"synchronizer.group_name=g", "", "the engine that trains samples as well"},
		{"synchronizer.group_name=g", started, "a group of their own for each version"},
		{"synchronizer.group_name=g", " mode=explore", "has no sampler beside a trainer"},
		{"trainer.listen_address=a:1", "", "no explorer of another process joins"},
		{"trainer.listen_address=a:1", " mode=train buffer.train_batch_size=4", ""},
		{"trainer.listen_address=a:1", " mode=train buffer.train_batch_size=4 buffer.trainer_input.experience_buffer.storage_type=file" +
			" buffer.trainer_input.experience_buffer.path=kept.jsonl", "no explorer of another process joins"},
		{"buffer.trainer_input.experience_buffer.path=p", "", "the queue is kept in buffer.cache_dir"},
		{"buffer.trainer_input.experience_buffer.path=p", " mode=explore", "the trainer keeps the queue"},
		{"model.logprobs=5", "", "nothing reads"},
		{"model.logprobs=0", "", ""},
		{"buffer.explorer_input.taskset.workflow_args.logprobs=5", "", ""},
	} {
		cfg := mustParse(t, base, Options{Overrides: append(strings.Fields(c.more), c.set)})
		key, _, _ := strings.Cut(c.set, "=")
		got := cfg.settled[0].unusedReason(key)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s with%s: unused because %q, want %q", c.set, c.more, got, c.want)
		}
	}
}
