package observe

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Metrics returns the current values of all metrics in Prometheus's text
// format.
func (o *Observer) Metrics(ctx context.Context) ([]byte, error) {
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(ctx, &all); err != nil {
		return nil, fmt.Errorf("collect metrics: %w", err)
	}
	var out bytes.Buffer
	for _, scope := range all.ScopeMetrics {
		slices.SortFunc(scope.Metrics, func(a, b metricdata.Metrics) int { return strings.Compare(a.Name, b.Name) })
		for _, m := range scope.Metrics {
			expose(&out, m)
		}
	}
	return out.Bytes(), nil
}

func expose(out *bytes.Buffer, m metricdata.Metrics) {
	head := func(name, kind string) {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, m.Description, name, kind)
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		name := m.Name + "_total"
		head(name, "counter")
		exposePoints(out, name, data.DataPoints)
	case metricdata.Gauge[int64]:
		head(m.Name, "gauge")
		exposePoints(out, m.Name, data.DataPoints)
	case metricdata.Gauge[float64]:
		head(m.Name, "gauge")
		exposePoints(out, m.Name, data.DataPoints)
	case metricdata.Histogram[float64]:
		head(m.Name, "histogram")
		var lines []string
		for _, p := range data.DataPoints {
			var text strings.Builder
			below := uint64(0)
			for i, n := range p.BucketCounts {
				below += n
				limit := "+Inf"
				if i < len(p.Bounds) {
					limit = number(p.Bounds[i])
				}
				fmt.Fprintf(&text, "%s_bucket%s %d\n", m.Name, labels(p.Attributes, "le", limit), below)
			}
			fmt.Fprintf(&text, "%s_sum%s %s\n", m.Name, labels(p.Attributes), number(p.Sum))
			fmt.Fprintf(&text, "%s_count%s %d\n", m.Name, labels(p.Attributes), p.Count)
			lines = append(lines, text.String())
		}
		write(out, lines)
	}
}

func exposePoints[N int64 | float64](out *bytes.Buffer, name string, points []metricdata.DataPoint[N]) {
	var lines []string
	for _, p := range points {
		lines = append(lines, fmt.Sprintf("%s%s %v\n", name, labels(p.Attributes), p.Value))
	}
	write(out, lines)
}

// write writes the lines sorted, so that results can be compared.
func write(out *bytes.Buffer, lines []string) {
	slices.Sort(lines)
	for _, l := range lines {
		out.WriteString(l)
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels formats attributes and additional pairs of name and value.
func labels(of attribute.Set, more ...string) string {
	var all []string
	for _, kv := range of.ToSlice() {
		all = append(all, fmt.Sprintf(`%s="%s"`, kv.Key, escapeLabel.Replace(kv.Value.String())))
	}
	for i := 0; i < len(more); i += 2 {
		all = append(all, fmt.Sprintf(`%s="%s"`, more[i], more[i+1]))
	}
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}
