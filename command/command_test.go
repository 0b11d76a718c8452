package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// commandLine holds the arguments with which the test binary becomes the program.
const commandLine = "TRINITY_TEST_COMMAND_LINE"

func init() {
	registry.Rewards.Register("test_own", "A reward of this program.", func() trinity.RewardFunc { return own{} })
}

type own struct{}

func (own) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.InvalidReward("none"), nil
}

func TestMain(m *testing.M) {
	if line := os.Getenv(commandLine); line != "" {
		os.Args = append(os.Args[:1], strings.Fields(line)...)
		Main()
	}
	os.Exit(m.Run())
}

// A program that calls Main has the built-in plug-ins and its own. It exits with a status.
func TestMainRunsTheCommandLine(t *testing.T) {
	for _, c := range []struct {
		line   string
		status int
		want   []string
	}{
		{"list reward_fn", 0, []string{"math_reward", "test_own"}},
		{"explain reward_fn test_own", 0, []string{"A reward of this program."}},
		{"explain reward_fn nobody", 1, []string{`"nobody"`}},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), commandLine+"="+c.line)
		out, err := cmd.CombinedOutput()
		status := 0
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			status = failed.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.line, status, c.status, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %s in %s", c.line, want, out)
			}
		}
	}
}
