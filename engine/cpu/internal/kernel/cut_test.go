package kernel

import "testing"

// TestCutSharesWorkEvenly: no core has much more to do than another, nor tasks that are not worth
// handing out.
func TestCutSharesWorkEvenly(t *testing.T) {
	for _, cores := range []int{1, 2, 3, 8} {
		p := &Pool{size: cores}
		for _, c := range []struct {
			m, n, k int
			packs   bool
		}{
			{2048, 576, 576, false}, {2048, 3072, 576, false}, {1300, 576, 1536, false}, {2048, 49152, 576, false}, {3072, 576, 2048, true},
			{960, 576, 2048, true}, {32, 960, 576, false}, {32, 576, 1536, false}, {8, 576, 576, false}, {1, 49152, 576, false}, {96, 16, 576, false},
		} {
			panels := (c.n + lanes - 1) / lanes
			rows, width := p.cut(c.m, panels, c.k, c.packs)
			if rows < 1 || rows%maxRows != 0 || rows > rowBlock || width < 1 || width > panels+3 {
				t.Fatalf("%d cores, %+v: tasks of %d rows and %d panels", cores, c, rows, width)
			}
			tasks := (c.m + rows - 1) / rows * ((panels + width - 1) / width)
			work, task := c.m*panels, min(rows, c.m)*width
			if share := (tasks + cores - 1) / cores * task; tasks >= cores && share > work/cores*5/4 {
				t.Errorf("%d cores, %+v: %d tasks of %d rows and %d panels: one core may do %.2f of an even share",
					cores, c, tasks, rows, width, float64(share*cores)/float64(work))
			}
			if tasks > cores && task*lanes*c.k < taskCost {
				t.Errorf("%d cores, %+v: %d tasks of %d rows and %d panels are too small", cores, c, tasks, rows, width)
			}
		}
	}
}

// TestStretches: no core has much more to read than another, many panels make whole tiles, and
// each task is large enough to pay for handing it out.
func TestStretches(t *testing.T) {
	for _, cores := range []int{1, 2, 3, 8, 16} {
		for _, m := range []int{1, 4, 8, 32, 96} {
			for _, panels := range []int{1, 4, 36, 60, 61, 192, 3072} {
				const k = 576
				unit, most := cutStretch(cores, m, panels, k)
				units := (panels + unit - 1) / unit
				if longest := (units + cores - 1) / cores * unit; longest > (panels+cores-1)/cores+1 {
					t.Errorf("%d cores, %d rows, %d panels: one core has %d", cores, m, panels, longest)
				}
				if panels > 12*cores && unit != 2 {
					t.Errorf("%d cores, %d rows, %d panels: units of %d", cores, m, panels, unit)
				}
				if task := most * unit * lanes * m * k; task < leastTask/2 || task > 2*leastTask && most*unit > max(unit, 1<<current().widest(m)) {
					t.Errorf("%d cores, %d rows, %d panels: a core takes %d multiply-adds", cores, m, panels, task)
				}
			}
		}
	}
}
