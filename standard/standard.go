// Package standard links every built-in plug-in.
package standard

import (
	_ "github.com/trinity-go/trinity/algorithm"           // algorithms
	_ "github.com/trinity-go/trinity/algorithm/advantage" // advantage functions
	_ "github.com/trinity-go/trinity/algorithm/loss"      // policy losses, KL, entropy
	_ "github.com/trinity-go/trinity/algorithm/sample"    // sample strategies
	_ "github.com/trinity-go/trinity/buffer"              // priorities of replay
	_ "github.com/trinity-go/trinity/engine/cpu"          // the embedded engine
	_ "github.com/trinity-go/trinity/engine/external"     // APIs of text
	_ "github.com/trinity-go/trinity/engine/served"       // samplers behind HTTP
	_ "github.com/trinity-go/trinity/engine/tinker"       // services that train
	_ "github.com/trinity-go/trinity/engine/torch"        // PyTorch
	_ "github.com/trinity-go/trinity/environment"         // environments
	_ "github.com/trinity-go/trinity/launcher"            // where programs of engines are started
	_ "github.com/trinity-go/trinity/monitor"             // monitors
	_ "github.com/trinity-go/trinity/operator"            // edits of groups before the buffer
	_ "github.com/trinity-go/trinity/operator/rows"       // edits of a taskset before the run
	_ "github.com/trinity-go/trinity/reward"              // reward functions
	_ "github.com/trinity-go/trinity/selector"            // task selectors
	_ "github.com/trinity-go/trinity/weights"             // memory, directory
	_ "github.com/trinity-go/trinity/workflow"            // workflows
)
