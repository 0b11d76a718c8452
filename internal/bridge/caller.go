package bridge

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/process"
)

// callers is what names begin with whose functions are in the Python process that has started this one, as in
// caller:right. Its package trinity_go sets the variables. The rest of a name is what another run imports instead.
const callers = "caller:"

// callerVariable names the address at which that process listens. Programs of the run do not get the token's variable.
const callerVariable, callerToken = "TRINITY_CALLER", "TRINITY_CALLER_TOKEN"

// caller returns the mux to the process that has started this one. There is one, for all sections and for as long as
// this process lives, because that process accepts one connection.
var caller = sync.OnceValues(func() (*process.Mux, error) {
	first := []byte(os.Getenv(callerToken) + "\n")
	return process.DialMux(os.Getenv(callerVariable), callersAtOnce, process.Lines{Most: maxLine, First: first})
})

// HasCaller reports whether a Python process has started this one for its functions. The end of the standard input then
// is the end of that process, or its wish that this one stops.
func HasCaller() bool { return os.Getenv(callerVariable) != "" }

// callersAtOnce is how many questions that process gets at once.
const callersAtOnce = 128

// at returns what the processes of a section are asked as, and the mux to the process that has started this one if that
// one is asked instead.
func at(name string) (rest string, mux *process.Mux, err error) {
	rest, is := strings.CutPrefix(name, callers)
	switch {
	case is && HasCaller():
		mux, err = caller()
	case is && !strings.Contains(rest, "."):
		err = fmt.Errorf("%s was a function of the Python process that started the run, and no module has it: "+
			"start the run from there, or name a function of a module", rest)
	}
	return rest, mux, err
}
