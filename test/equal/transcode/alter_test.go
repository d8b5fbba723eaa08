package transcode

import (
	"math/rand"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// alter changes values in an object and keeps which fields are set: texts to other texts,
// numbers to others of the same sign, lists to others of the same values. Most objects keep
// their fingerprint.
func alter(r *rand.Rand, obj runtime.Object) {
	a := &alteration{r: r}
	v := reflect.ValueOf(obj).Elem()
	a.gather(v)
	for i := range v.NumField() {
		if v.Type().Field(i).Name != "TypeMeta" {
			a.walk(v.Field(i))
		}
	}
}

// alteration is one change of an object.
type alteration struct {
	r *rand.Rand
	// texts are all texts of the object. Conversion compares some with each other.
	texts []string
}

// words are texts at which Kubernetes looks somewhere.
var words = []string{"User", "Group", "ServiceAccount", "latest", "image:latest", "v1", "10.0.0.1", "kubernetes.io/metadata.name", "x", "a/b", "0", "7", "<&>", "\u2028é\xff"}

func (a *alteration) gather(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 {
			a.texts = append(a.texts, v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			a.gather(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				a.gather(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			a.gather(v.Index(i))
		}
	}
}

func (a *alteration) walk(v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *resource.Quantity:
		if !at.IsZero() && a.r.Intn(2) == 0 {
			*at = resource.MustParse([]string{"1", "100m", "128Mi", "3k", "1500m", "1Gi", "12345678901", "2e3", "1u", "-5"}[a.r.Intn(10)])
		}
		return
	case *metav1.Time:
		if !at.IsZero() {
			*at = metav1.NewTime(time.Unix(a.r.Int63n(4e9), 0))
		}
		return
	case *metav1.MicroTime:
		if !at.IsZero() {
			*at = metav1.NewMicroTime(time.Unix(a.r.Int63n(4e9), a.r.Int63n(1e6)*1000))
		}
		return
	case *intstr.IntOrString:
		a.walkKind(v.FieldByName("IntVal"))
		a.walkKind(v.FieldByName("StrVal"))
		return
	case *runtime.RawExtension, *metav1.FieldsV1:
		return
	}
	a.walkKind(v)
}

func (a *alteration) walkKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			a.walk(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				a.walk(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			a.walk(v.Index(i))
		}
		if v.Len() > 1 && a.r.Intn(3) == 0 {
			reflect.Swapper(v.Interface())(0, v.Len()-1)
		}
	case reflect.Map:
		a.walkMap(v)
	case reflect.String:
		rare := 3
		if v.Type().PkgPath() != "" { // Each value of an enumeration has its own fingerprint.
			rare = 50
		}
		if v.Len() > 0 && a.r.Intn(rare) == 0 {
			v.SetString(a.text())
		}
	case reflect.Int32, reflect.Int64:
		if n := v.Int(); n > 0 && a.r.Intn(2) == 0 {
			v.SetInt(1 + a.r.Int63n(1<<30))
		} else if n < 0 {
			v.SetInt(-1 - a.r.Int63n(1<<30))
		}
	}
}

// text is one of the object's texts or of the words.
func (a *alteration) text() string {
	if len(a.texts) > 0 && a.r.Intn(2) == 0 {
		return a.texts[a.r.Intn(len(a.texts))]
	}
	return words[a.r.Intn(len(words))]
}

func (a *alteration) walkMap(v reflect.Value) {
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		a.walk(value)
		v.SetMapIndex(key, value)
	}
	if v.Type().Key().Kind() == reflect.String && v.Len() > 0 && a.r.Intn(3) == 0 {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(a.text())
		v.SetMapIndex(key, v.MapIndex(v.MapKeys()[0]))
	}
}
