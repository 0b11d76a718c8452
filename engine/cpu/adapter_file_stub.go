package cpu

import "github.com/trinity-go/trinity/modelfile"

func openAdapter(o *LoRAOptions) (modelfile.Source, error) { return nil, nil }
