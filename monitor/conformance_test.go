package monitor

import (
	"os"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	stderr := os.Stderr
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = null // the console writes to it
	t.Cleanup(func() { os.Stderr = stderr; _ = null.Close() })
	for _, name := range Monitors.Names() {
		t.Run(name, func(t *testing.T) {
			var args map[string]any
			if _, ok := Monitors.Default(name).(Sink); ok { // its service is away
				args = map[string]any{"close_timeout": 0}
				t.Setenv("TRACKIO_DIR", t.TempDir())
			}
			trinitytest.Monitor(t, func(dir string) (trinity.Monitor, error) {
				return open(name, []string{name}, args, Run{Dir: dir, TotalSteps: 9})
			})
		})
	}
	t.Run("live console", func(t *testing.T) {
		width, height := 60, 8
		trinitytest.Monitor(t, func(string) (trinity.Monitor, error) {
			c, _ := liveConsole(&width, &height)
			return c, nil
		})
	})
}
