//! Attention from Rust: `cargo run --example attention -- ./attention.so out.bin`.

use kdsl::{Arg, Error, Function, Module, Result, View, ViewMut};

const SHAPE: [i64; 4] = [1, 4, 8, 64];
const COUNT: usize = 4 * 8 * 64;

fn inputs() -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let divided = |n: usize| (0..COUNT).map(|i| (i % n) as f32 / n as f32).collect();
    (
        divided(7),
        divided(5),
        (0..COUNT).map(|i| (i % 3) as f32).collect(),
    )
}

fn refused<T>(result: Result<T>) -> std::result::Result<(), String> {
    match result {
        Ok(_) => Err("accepted".into()),
        Err(error) => {
            println!("{error}");
            Ok(())
        }
    }
}

fn run(path: &str, out: Option<&str>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (q, k, v) = inputs();
    let (q, k, v) = (
        View::new(&q, &SHAPE)?,
        View::new(&k, &SHAPE)?,
        View::new(&v, &SHAPE)?,
    );
    let module = Module::load(path)?;
    let attention = module.function("attention")?;
    let call = |f: &Function, scale: f64, o: Arg, lse: Arg| {
        f.call(&mut [q.arg(), k.arg(), v.arg(), scale.into(), o, lse, true.into()])
    };

    // Into memory of ours.
    let (mut o, mut lse) = (vec![0f32; COUNT], vec![0f32; 32]);
    let (mut o_view, mut lse_view) = (
        ViewMut::new(&mut o, &SHAPE)?,
        ViewMut::new(&mut lse, &[1, 4, 8])?,
    );
    call(&attention, 0.125, o_view.arg(), lse_view.arg())?;
    println!("o[0, 0, 1, :3] = {:.6} {:.6} {:.6}", o[64], o[65], o[66]);

    // Into tensors that the call makes.
    let made = call(&attention, 0.125, Arg::none(), Arg::none())?.tensors()?;
    println!(
        "made again: {:?} {}",
        made[0].shape(),
        made[0].as_slice::<f32>()? == o.as_slice()
    );

    // What is wrong is an Err, and nothing is done.
    refused(call(&attention, -1.0, Arg::none(), Arg::none()))?;
    refused(call(&attention, 0.125, q.arg(), Arg::none()))?;
    refused(attention.call(&mut []))?;
    let wide = vec![0f64; COUNT];
    let wide = View::new(&wide, &SHAPE)?;
    refused(attention.call(&mut [wide.arg(), k.arg(), v.arg(), 0.125.into()]))?;
    refused(View::new(&[0f32; 3], &[2, 2]))?;
    refused(made[0].as_slice::<f64>())?;
    refused(module.function("softmax"))?;
    refused(Module::load("./missing.so"))?;

    if let Some(out) = out {
        let bytes: Vec<u8> = o.iter().chain(&lse).flat_map(|x| x.to_ne_bytes()).collect();
        std::fs::write(out, bytes)?;
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let path = args.get(1).map_or("./attention.so", String::as_str);
    match run(path, args.get(2).map(String::as_str)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "{}",
                error
                    .downcast_ref::<Error>()
                    .map_or(error.to_string(), Error::to_string)
            );
            std::process::ExitCode::FAILURE
        }
    }
}
