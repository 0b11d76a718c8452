package front

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// A server that listens at all addresses prints one that works on its machine, and one for others.
func TestAddressesOfServers(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for listen, want := range map[string]string{
		"127.0.0.1:0": "http://127.0.0.1:PORT/v1",
		"0.0.0.0:0":   "http://127.0.0.1:PORT/v1, from other machines at http://" + host + ":PORT/v1",
		"[::]:0":      "http://127.0.0.1:PORT/v1, from other machines at http://" + host + ":PORT/v1",
	} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Log("this machine has no such address:", err)
			continue
		}
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		if got := strings.ReplaceAll(addressesOf(l), port, "PORT"); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A served adapter has its own name, and not that of its base model.
func TestNameOfAServedModel(t *testing.T) {
	for _, c := range []struct{ model, adapter, want string }{
		{"/models/Qwen3-0.6B", "", "Qwen3-0.6B"},
		{"/models/Qwen3-0.6B", "/mine/polite", "polite"},
		{"/models/Qwen3-0.6B", "/runs/a/global_step_40/actor/lora_adapter", "global_step_40"},
		{"/runs/a/global_step_40/actor/huggingface", "", "global_step_40"},
	} {
		m := &config.Model{ModelPath: c.model}
		if c.adapter != "" {
			m.LoraConfigs = make([]config.Lora, 1)
			m.LoraConfigs[0].Path = c.adapter
		}
		if got := servedName(m); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
