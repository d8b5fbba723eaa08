package entry_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/wire/entry"
)

// storedPod returns a pod of one of a few applications as Kubernetes stores it, without
// the envelope. A larger environment makes it larger.
func storedPod(b *testing.B, r *rand.Rand, i, environment int) []byte {
	b.Helper()
	app := fmt.Sprint("application-", i%20)
	hash := func() string { return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()) }
	began := metav1.NewTime(time.Unix(1_700_000_000+r.Int64N(1e7), 0))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%.10s", app, hash()), Namespace: "default", UID: types.UID(hash()), CreationTimestamp: began,
		Labels: map[string]string{"app.kubernetes.io/name": app, "pod-template-hash": hash()[:10]},
	}}
	p.Spec.NodeName, p.Status.PodIP = fmt.Sprint("node-", r.IntN(500)), fmt.Sprintf("10.%d.%d.%d", r.IntN(256), r.IntN(256), r.IntN(256))
	for _, name := range []string{"main", "proxy", "metrics"} {
		c := corev1.Container{Name: name, Image: "registry.example.com/" + app + "/" + name + ":v1.2.3"}
		for j := range environment {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint(strings.ToUpper(name), "_SETTING_", j), Value: fmt.Sprintf("https://%s.%s.svc.cluster.local/%d", app, name, j*7919)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Image: c.Image, ImageID: c.Image + "@sha256:" + hash() + hash(), ContainerID: "containerd://" + hash() + hash(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		})
	}
	value, err := p.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// BenchmarkPacking packs and reads pods. As in the cache, the samples of the dictionary are
// spread over them.
func BenchmarkPacking(b *testing.B) {
	for _, environment := range []int{8, 50} {
		const pods = 2000
		r := rand.New(rand.NewPCG(1, 2))
		var stored, samples [][]byte
		plain, sampled := 0, 0
		for i := range pods {
			stored = append(stored, storedPod(b, r, i, environment))
			plain += len(stored[i])
		}
		for i := 0; sampled < entry.MaxSampleBytes(); i++ {
			samples = append(samples, stored[i*97%pods])
			sampled += len(samples[i])
		}
		packing, err := entry.NewPacking(samples)
		if err != nil {
			b.Fatal(err)
		}
		var packed []*entry.Entry
		bytes := 0
		for _, value := range stored {
			e := &entry.Entry{Value: value}
			e.Pack(packing)
			packed = append(packed, e)
			bytes += len(e.Value)
		}
		name := fmt.Sprint(plain/pods, "-bytes")
		b.Run("pack/"+name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				e := entry.Entry{Value: stored[i%pods]}
				e.Pack(packing)
			}
			b.ReportMetric(float64(plain)/float64(bytes), "ratio")
		})
		b.Run("read/"+name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if err := packed[i%pods].Read(func([]byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
