package launcher

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/trinity-go/trinity"
)

// driver describes the pod of a run's driver, which creates the Jobs of its groups.
func (k *kubernetes) driver(id string, g trinity.ProcessGroup) pods {
	g.Env = maps.Clone(g.Env)
	if g.Env == nil {
		g.Env = map[string]string{}
	}
	g.Env[podRun] = id
	g.Nodes, g.GPUs = 1, 0
	return pods{ProcessGroup: g, run: id, job: id, driver: true}
}

// Submit implements Scheduler.
func (k *kubernetes) Submit(ctx context.Context, g trinity.ProcessGroup) (string, error) {
	id := g.Name + "-" + strings.ToLower(rand.Text()[:8])
	return id, k.create(ctx, k.driver(id, g))
}

// Script implements Scheduler.
func (k *kubernetes) Script(g trinity.ProcessGroup) (string, error) {
	job, rest, err := k.manifests(k.driver(g.Name, g), "")
	if err != nil {
		return "", err
	}
	return preview(job, rest)
}

// Status implements Scheduler.
func (k *kubernetes) Status(ctx context.Context, id string) (string, bool, error) {
	state, err := k.state(ctx, id)
	if err != nil || state.ended {
		return state.words, state.ended, err
	}
	pods, err := k.states(ctx, id)
	if err != nil {
		return "", false, err
	}
	if len(pods) == 0 {
		return "no pod yet", false, nil
	}
	return pods[0].String(), false, nil
}

// Logs implements Scheduler.
func (k *kubernetes) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	command := k.kubectl("logs", "job/"+id)
	if follow {
		command = append(command, "--follow", "--pod-running-timeout=24h")
	}
	err := stream(ctx, w, command...)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Down implements Scheduler. The driver goes first, so that it starts nothing more.
func (k *kubernetes) Down(ctx context.Context, id string) error {
	for _, selector := range []string{labelGroup, labelRun} {
		if err := k.remove(ctx, selector+"="+id); err != nil {
			return err
		}
	}
	return nil
}

// podState is the state of a pod.
type podState struct {
	name, phase string
	why         string // it does not run; "" if it does
}

func (s podState) String() string {
	if s.why == "" {
		return s.phase
	}
	return fmt.Sprintf("pod %s is %s: %s", s.name, s.phase, s.why)
}

// states returns the states of a Job's pods.
func (k *kubernetes) states(ctx context.Context, job string) ([]podState, error) {
	out, err := tool(ctx, nil, k.kubectl("get", "pods", "--selector", labelGroup+"="+job, "-o", "json")...)
	if err != nil {
		return nil, err
	}
	type reason struct{ Reason, Message string }
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				Phase, Reason, Message string
				Conditions             []struct{ Type, Status, Reason, Message string }
				ContainerStatuses      []struct{ State struct{ Waiting *reason } }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("kubectl get pods: %w", err)
	}
	var all []podState
	for _, item := range list.Items {
		s := podState{name: item.Metadata.Name, phase: item.Status.Phase}
		why := []string{item.Status.Reason, item.Status.Message}
		for _, c := range item.Status.Conditions {
			if c.Type == "PodScheduled" && c.Status != "True" {
				why = append(why, c.Reason, c.Message)
			}
		}
		for _, c := range item.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				why = append(why, c.State.Waiting.Reason, c.State.Waiting.Message)
			}
		}
		s.why = strings.Join(strings.Fields(strings.Join(why, " ")), " ")
		all = append(all, s)
	}
	return all, nil
}
