package launcher

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
)

func init() {
	Launchers.Register("ssh",
		"The machines of cluster.hosts, over ssh with keys: nothing is installed there, and all of a group ends with its connection.",
		func() Launcher { return &ssh{} })
}

// ssh starts programs on hosts.
type ssh struct {
	Options []string `yaml:"options" doc:"options of ssh, such as [-p, \"2222\", -i, key]; a host's section in ~/.ssh/config does as well"`
	Host    string   `yaml:"host" doc:"name or address of this machine for the hosts; left out is the address towards the first host"`

	hosts []string
	gpus  int
	on    *remote
}

// ReadCluster implements config.ClusterReader.
func (s *ssh) ReadCluster(c *config.Cluster) error {
	switch {
	case len(c.Hosts) == 0:
		return errors.New("ssh needs cluster.hosts, such as [user@host1, user@host2]")
	case c.NodeNum > len(c.Hosts):
		return fmt.Errorf("cluster.node_num is %d, and cluster.hosts has %d hosts", c.NodeNum, len(c.Hosts))
	}
	for i, host := range c.Hosts {
		if host == "" || strings.HasPrefix(host, "-") || slices.Contains(c.Hosts[:i], host) {
			return fmt.Errorf("cluster.hosts: %q is not the name of another host", host)
		}
	}
	s.hosts, s.gpus = c.Hosts, c.GPUPerNode
	if c.NodeNum > 0 {
		s.hosts = c.Hosts[:c.NodeNum]
	}
	s.on = newRemote(s.hosts, s.gpus, s.shell)
	return nil
}

// shell returns the command that connects to a host. It asks for nothing, and notices within a
// minute that the host is gone.
func (s *ssh) shell(_, host string) []string {
	command := append([]string{"ssh", "-T", "-o", "BatchMode=yes"}, s.Options...)
	return append(command, "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", host, "exec sh -s")
}

// Reach implements Launcher.
func (s *ssh) Reach() string {
	if s.Host != "" {
		return s.Host
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return addressTowards(ctx, s.address(ctx, s.hosts[0]))
}

// address returns the name or address that a host has in the configuration of ssh.
func (s *ssh) address(ctx context.Context, host string) string {
	out, _ := exec.CommandContext(ctx, "ssh", append(slices.Clone(s.Options), "-G", host)...).Output()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "hostname "); ok {
			return name
		}
	}
	_, name, found := strings.Cut(host, "@")
	if !found {
		return host
	}
	return name
}

// GPUs implements Launcher.
func (s *ssh) GPUs() (int, error) { return s.gpus, nil }

// Tools returns the commands whose versions trinity doctor reports.
func (*ssh) Tools() [][]string { return [][]string{{"ssh", "-V"}} }

// Describe implements Launcher.
func (s *ssh) Describe() string { return "over ssh on " + strings.Join(s.hosts, ", ") }

// Render implements Launcher.
func (s *ssh) Render(g trinity.ProcessGroup) (string, error) { return s.on.render(g) }

// Launch implements Launcher.
func (s *ssh) Launch(_ context.Context, g trinity.ProcessGroup) (Launched, error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, fmt.Errorf("ssh is not installed on this machine: %w", err)
	}
	return s.on.launch(g)
}
