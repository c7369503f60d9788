"""Functions as IR text, as a frontend gives them; tests of the IR and of passes share them."""

ATTENTION = """\
kernel attention_f32_causal(
    q: f32[B, H, M, D],
    k: f32[B, G, N, D],
    v: f32[B, G, N, D],
    scale: f32,
    o: Out[f32[B, H, M, D]],
    lse: Out[f32[B, H, M]]) {
  dims B, H, M, D, G, N
  axis m = tiles(M)
  axis n = tiles(N)
  axis D = whole(D)
  host {
    t: i64 = size(H)
    t_2: i64 = size(G)
    t_3: i64 = mod(t, t_2)
    t_4: i64 = 0
    t_5: bool = eq(t_3, t_4)
    assert t_5, "H % G == 0"
    t_6: f32 = arg(scale)
    t_7: f32 = 0
    t_8: bool = gt(t_6, t_7)
    assert t_8, "scale > 0"
  }
  parallel b in B, h in H, m in tiles(M) {
    b: i64 = var(b)
    h: i64 = var(h)
    t_9: i64 = size(H)
    t_10: i64 = size(G)
    t_11: i64 = floordiv(t_9, t_10)
    g: i64 = floordiv(h, t_11)
    qm: f32[m, D] = q[b, h, m, D]
    acc: f32[m, D] = 0.0
    den: f32[m] = 0.0
    top: f32[m] = -inf
    t_12: i64 = m.stop
    t_13: i64 = size(N)
    t_14: i64 = add(t_12, t_13)
    t_15: i64 = size(M)
    t_16: i64 = sub(t_14, t_15)
    for n in tiles(stop=t_16) with
        acc_2: f32[m, D] = acc as acc_4,
        den_2: f32[m] = den as den_4,
        top_2: f32[m] = top as top_3 {
      t_17: f32[n, D] = k[b, g, n, D]
      t_18: f32[m, n] = dot(qm, t_17; D)
      t_19: f32 = arg(scale)
      t_20: f32 = 1.4426950408889634
      t_21: f32 = mul(t_19, t_20)
      s: f32[m, n] = mul(t_18, t_21)
      t_22: i64[m] = m.index
      t_23: i64 = size(N)
      t_24: i64 = size(M)
      t_25: i64 = sub(t_23, t_24)
      t_26: i64[m] = add(t_22, t_25)
      t_27: i64[n] = n.index
      t_28: bool[m, n] = ge(t_26, t_27)
      t_29: f32 = -inf
      s_2: f32[m, n] = where(t_28, s, t_29)
      t_30: f32[m] = max(s_2; n)
      new: f32[m] = maximum(top_2, t_30)
      t_31: f32 = -inf
      t_32: bool[m] = gt(new, t_31)
      t_33: f32 = 0
      ref: f32[m] = where(t_32, new, t_33)
      t_34: f32[m, n] = sub(s_2, ref)
      p: f32[m, n] = exp2(t_34)
      t_35: f32[m] = sub(top_2, ref)
      fix: f32[m] = exp2(t_35)
      t_36: f32[m] = mul(den_2, fix)
      t_37: f32[m] = sum(p; n)
      den_3: f32[m] = add(t_36, t_37)
      t_38: f32[m, D] = mul(acc_2, fix)
      t_39: f32[n, D] = v[b, g, n, D]
      t_40: f32[m, D] = dot(p, t_39; n)
      acc_3: f32[m, D] = add(t_38, t_40)
      yield acc_2=acc_3, den_2=den_3, top_2=new
    }
    t_41: f32 = 0
    t_42: bool[m] = gt(den_4, t_41)
    t_43: f32[m, D] = div(acc_4, den_4)
    t_44: f32 = 0
    t_45: f32[m, D] = where(t_42, t_43, t_44)
    o[b, h, m, D] = t_45
    t_46: f32[m] = log2(den_4)
    t_47: f32[m] = add(top_3, t_46)
    t_48: f32 = 1.4426950408889634
    t_49: f32[m] = div(t_47, t_48)
    lse[b, h, m] = t_49
  }
}
"""

SOFTMAX = """\
kernel softmax_bf16(x: bf16[M, N], out: Out[bf16[M, N]]) {
  dims M, N
  axis N = whole(N)
  parallel i in M {
    i: i64 = var(i)
    row: bf16[N] = x[i, N]
    t: f32[N] = cast(row)
    t_2: f32 = max(t; N)
    t_3: f32[N] = cast(row)
    t_4: f32[N] = sub(t_3, t_2)
    e: f32[N] = exp(t_4)
    t_5: f32 = sum(e; N)
    t_6: f32[N] = div(e, t_5)
    t_7: bf16[N] = cast(t_6)
    out[i, N] = t_7
  }
}
"""

MATMUL = """\
kernel matmul_f32(a: f32[M, K], b: f32[K, N], bias: f32[N], out: Out[f32[M, N]]) {
  dims M, K, N
  axis m = tiles(M)
  axis n = tiles(N)
  axis k = tiles(K)
  parallel m in tiles(M), n in tiles(N) {
    acc: f32[m, n] = 0.0
    for k in tiles() with
        acc_2: f32[m, n] = acc as acc_4 {
      t: f32[m, k] = a[m, k]
      t_2: f32[n, k] = b[k, n]
      t_3: f32[m, n] = dot(t, t_2; k)
      acc_3: f32[m, n] = add(acc_2, t_3)
      yield acc_2=acc_3
    }
    t_4: f32[n] = bias[n]
    t_5: f32[m, n] = add(acc_4, t_4)
    t_6: f32[m, n] = tanh(t_5)
    out[m, n] = t_6
  }
}
"""

MEAN_OF_SQUARES = """\
kernel mean_of_squares_f32(x: f32[M, N], out: Out[f32[()]]) {
  dims M, N
  axis N = whole(N)
  axis M = whole(M)
  scratch part: f32[M]
  parallel i in M {
    i: i64 = var(i)
    row: f32[N] = x[i, N]
    t: f32[N] = mul(row, row)
    t_2: f32 = sum(t; N)
    part[i] = t_2
  }
  parallel z in 1 {
    t_3: f32[M] = part[M]
    t_4: f32 = sum(t_3; M)
    t_5: i64 = size(M)
    t_6: i64 = size(N)
    t_7: i64 = mul(t_5, t_6)
    t_8: f32 = cast(t_7)
    t_9: f32 = div(t_4, t_8)
    out[()] = t_9
  }
}
"""

#: Ranges, branches, gathers, steps, carries that a branch changes.
CONTROL = """\
kernel control(
    x: f32[M, N],
    pick: i32[M],
    limit: i64,
    half: Out[f32[M, N // 2]],
    seen: InOut[i32[M]]) {
  dims M, N
  axis E = whole(N // 2)
  axis N = whole(N)
  axis m = tiles(M)
  parallel m in tiles(M) {
    at: i32[m] = pick[m]
    odd: i64 = 1
    t: f32[E, m] = x[at, E * 2 + odd]
    half[m, E] = t
    zero: i64 = 0
    lim: i64 = arg(limit)
    count: i32 = 0
    one: i32 = 1
    for i in range(zero, lim, 2) with
        count_2: i32 = count as count_4 {
      i: i64 = var(i)
      big: bool = gt(i, odd)
      if big as count_3: i32 {
        more: i32 = add(count_2, one)
        yield count_3=more
      } else {
        yield count_3=count_2
      }
      yield count_2=count_3
    }
    old: i32[m] = seen[m]
    now: i32[m] = add(old, count_4)
    t_2: f32[N, m] = x[m, N]
    t_3: i64[m] = argmax(t_2; N)
    t_4: i32[m] = cast(t_3)
    sum: i32[m] = add(now, t_4)
    seen[m] = sum
  }
}
"""

TEXTS = {
    "attention": ATTENTION,
    "softmax": SOFTMAX,
    "matmul": MATMUL,
    "mean_of_squares": MEAN_OF_SQUARES,
    "control": CONTROL,
}
