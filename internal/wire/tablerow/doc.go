// Package tablerow keeps the rows of Kubernetes' tables (metav1.Table) as bytes. They have
// holes for text that depends on the time: ages, restarts such as "3 (5m ago)", the
// duration of a running job. A row is encoded once for each version of its object. Later it
// is written as Kubernetes would print it at that moment.
//
// A Builder finds out by experiment which cells depend on the time, and on which timestamp,
// for any type. It renders copies of an object with other timestamps and compares. A cell
// that it cannot explain is ErrVolatile; the caller must then let Kubernetes answer.
//
//	object ──► Builder.Build: render, render with moved timestamps, compare
//	                 │
//	                 ▼
//	             Template: {"cells":["pod-1", "‹age of t1›", ...], "object":...}
//	                 │
//	                 ▼ Append(now)
//	             {"cells":["pod-1", "5m", ...], "object":...}
//
// The renderer may use the time only for the ages of timestamps. The object must hold these
// as time.Time (metav1.Time, metav1.MicroTime) or, if it is unstructured, as RFC 3339 text.
// It must write the ages with duration.HumanDuration. The package does not choose rows for
// requests and keeps no objects.
package tablerow
